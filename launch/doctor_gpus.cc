#include "launch/doctor_gpus.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"

namespace colibri {
namespace {

std::string part_text(const CudaBackend& backend) {
  const std::string kind = backend.kind;
  return "there, " + (kind == "simulated" ? "for the simulated device: for tests" : kind);
}

SystemCheck driver_check(const GpuProbe& probe) {
  SystemCheck check{"GPU driver", probe.problem.empty(), {}, {}};
  check.value =
      probe.driver_version == 0 ? "none" : "CUDA " + cuda_version_text(probe.driver_version);
  check.value += ", built with CUDA " + cuda_version_text(probe.runtime_version);
  check.fix = probe.problem;
  return check;
}

SystemCheck nccl_check(const CudaBackend& backend) {
  if (backend.has_nccl()) return {"NCCL", true, backend.nccl_version(), {}};
  return {
      "NCCL", false, "not built in",
      "rows between GPUs travel through host memory; build where nccl.h and libnccl.so are found "
      "(-DCOLIBRI_NCCL_ROOT=DIR)"};
}

// Reading it starts a context on the GPU, so it may fail on one that is out of order.
SystemCheck memory_check(const CudaBackend& backend, const GpuInfo& gpu) {
  SystemCheck check{"GPU " + std::to_string(gpu.ordinal) + " memory", true, {}, {}};
  try {
    const GpuMemory memory = backend.read_gpu_memory(gpu.ordinal);
    check.value = format_bytes(memory.free_bytes) + " free of " + format_bytes(memory.total_bytes);
    check.ok = memory.free_bytes >= memory.total_bytes / 10 * 9;
    check.fix = "another process is on it (nvidia-smi shows which)";
  } catch (const Error& error) {
    check.ok = false;
    check.value = "cannot be read";
    check.fix = error.what();
  }
  return check;
}

}  // namespace

std::string check_line(const SystemCheck& check) {
  return fmt::format("{:<4} {:<18} {}{}\n", check.ok ? "ok" : "fix", check.name, check.value,
                     check.ok ? "" : ": " + check.fix);
}

std::string gpu_report(const std::function<const CudaBackend&()>& open_backend) {
  try {
    const CudaBackend& backend = open_backend();
    const GpuProbe probe = backend.probe_gpus();
    std::string text = check_line({"GPU part", true, part_text(backend), {}});
    text += check_line(driver_check(probe));
    text += check_line(nccl_check(backend));
    for (const GpuInfo& gpu : probe.gpus) text += check_line(memory_check(backend, gpu));
    return text + gpu_text(probe);
  } catch (const Error& error) {
    return check_line({"GPU part", true, std::string("none: ") + error.what(), {}});
  }
}

}  // namespace colibri
