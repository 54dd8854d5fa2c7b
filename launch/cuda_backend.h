// The door to libcolibri_cuda.so: everything that needs a GPU, behind one C symbol. The program
// itself links no CUDA, so that it starts as fast, and at all, where there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/device.h"
#include "kernels/cuda/dense.h"
#include "kernels/ops.h"
#include "topology/gpu.h"
#include "transport/device_link.h"
#include "transport/transport.h"

namespace colibri {

// Raised with every change of CudaBackend or of an interface that its functions return (Device,
// Ops, GpuProbe).
inline constexpr uint32_t kCudaBackendAbi = 5;
inline constexpr char kCudaBackendSymbol[] = "colibri_cuda_backend";

// What a link between GPUs is made from.
struct LinkParts {
  Transport* host = nullptr;  // between the same ranks; outlives the link
  int64_t start_timeout_ms = 120000;
  int64_t step_timeout_ms = 30000;
  bool may_spin = true;
  // After a loss: the ranks that are left, this one among them, and the id that they share. Without
  // an id all ranks of `host` join, which agree on one over its messages.
  std::vector<int> members = {};
  std::optional<LinkId> id = {};
};

// What the shared object offers. Its functions throw colibri::Error; what they make must be gone
// before the process ends, and stays valid until then: the object is never closed.
struct CudaBackend {
  // These three never move, so that a program can read them of any version.
  uint32_t abi = kCudaBackendAbi;
  uint32_t struct_bytes = 0;
  const char* version = "";  // of colibri, as kVersion
  const char* kind = "";     // "cuda", or "simulated" for the simulated device

  GpuProbe (*probe_gpus)() = nullptr;
  GpuMemory (*read_gpu_memory)(int ordinal) = nullptr;
  // Makes the GPU current for the calling thread; see base/cuda_device.h.
  std::unique_ptr<Device> (*make_device)(int ordinal) = nullptr;
  // For the calling thread's current GPU, `device`; see kernels/cuda/cuda_ops.h. Products with
  // matrices of `shapes` go to cuBLASLt where it gives every row the same bits; their probes run
  // here, and take the largest matrix's memory meanwhile.
  std::unique_ptr<Ops> (*make_ops)(Device& device, std::span<const DenseShape> shapes) = nullptr;

  // What make_ops keeps and takes for `shapes`.
  DenseMemory (*dense_memory)(std::span<const DenseShape> shapes) = nullptr;

  // NCCL, or false and "" where the object was built without.
  bool (*has_nccl)() = nullptr;
  std::string (*nccl_version)() = nullptr;
  LinkId (*make_link_id)() = nullptr;
  // All members call it at the same point. Errors: as make_nccl_comm (transport/nccl_comm.h).
  std::unique_ptr<DeviceLink> (*make_link)(Device& device, const LinkParts& parts) = nullptr;
};

// libcolibri_cuda.so beside this program (or libcolibri.so, where this code is part of it), else in
// the lib/ next to its folder; or the file that COLIBRI_CUDA_LIBRARY names.
std::string cuda_library_path();

// Opens `path` once a process (later calls find it open) and checks that it belongs to this
// program. Errors: kUnsupported naming the path and the CMake option when it is not there; with the
// loader's words when it cannot be loaded; naming both versions when it is of another build.
const CudaBackend& open_cuda_backend(const std::string& path = cuda_library_path());

}  // namespace colibri
