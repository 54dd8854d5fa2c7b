#include "launch/this_machine.h"

#include "base/error.h"
#include "launch/cuda_backend.h"
#include "topology/probe_nvml.h"

namespace colibri {
namespace {

void add_links_that_cuda_sees(ProbedCluster& machine) {
  try {
    const GpuProbe probe = open_cuda_backend().probe_gpus();
    add_gpu_links(probe.gpus, machine);
    if (!probe.problem.empty()) machine.notes.push_back("NVLink is not seen: " + probe.problem);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    machine.notes.push_back("NVLink is not seen: " + std::string(error.what()));
  }
}

}  // namespace

ProbedCluster this_machine() {
  ProbedCluster machine = probe_cluster();
  const NvmlProbe nvml = probe_nvml();
  if (!nvml.problem.empty()) machine.notes.push_back(nvml.problem);
  if (!nvml.gpus.empty()) {
    add_gpus(nvml.gpus, machine);
  } else if (!machine.cluster.parts_of(PartKind::kGpu).empty()) {
    add_links_that_cuda_sees(machine);
  }
  return machine;
}

}  // namespace colibri
