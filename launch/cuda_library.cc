// The one symbol of libcolibri_cuda.so.
#include <string_view>

#include "base/cuda_device.h"
#include "base/error.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/dense.h"
#include "launch/cuda_backend.h"
#include "launch/run_config.h"
#include "topology/probe_cuda.h"
#include "transport/nccl_comm.h"

namespace colibri {
namespace {

// A peer's death ends every wait: its process is watched by the host's transport.
void fail_if_a_peer_died(Transport& host) {
  host.progress();
  const std::vector<int> dead = host.dead_ranks();
  if (!dead.empty()) fail(ErrorKind::kRankLost, "rank ", dead.front(), " has died");
}

// The simulated device has no times to choose by, and needs few row counts.
DenseOptions dense_options() {
  DenseOptions options;
  if (std::string_view(COLIBRI_CUDA_KIND) == "simulated") {
    options.measures = false;
    options.buckets = {1, 8, 64};
    options.workspace_bytes = size_t{1} << 20;
  }
  return options;
}

std::unique_ptr<Ops> make_ops(Device& device, std::span<const DenseShape> shapes) {
  if (shapes.empty()) return make_cuda_ops();
  return make_cuda_ops({.dense = make_dense_products(device, shapes, dense_options())});
}

DenseMemory memory_of_dense(std::span<const DenseShape> shapes) {
  return shapes.empty() ? DenseMemory{} : dense_memory(shapes, dense_options());
}

std::unique_ptr<DeviceLink> make_link(Device& device, const LinkParts& parts) {
  Transport* host = parts.host;
  NcclOptions options;
  options.rank = host->rank();
  options.num_ranks = host->size();
  options.id = share_nccl_id(*host, Deadline::after_ms(parts.start_timeout_ms));
  options.start_timeout_ms = parts.start_timeout_ms;
  options.post_timeout_ms = parts.step_timeout_ms;
  options.may_spin = parts.may_spin;
  options.poll = [host] { fail_if_a_peer_died(*host); };
  return make_nccl_comm(device, options);
}

}  // namespace
}  // namespace colibri

extern "C" __attribute__((visibility("default"))) const colibri::CudaBackend*
colibri_cuda_backend() {
  static const colibri::CudaBackend backend{.struct_bytes = sizeof(colibri::CudaBackend),
                                            .version = colibri::kVersion,
                                            .kind = COLIBRI_CUDA_KIND,
                                            .probe_gpus = colibri::probe_gpus,
                                            .read_gpu_memory = colibri::read_gpu_memory,
                                            .make_device = colibri::make_cuda_device,
                                            .make_ops = colibri::make_ops,
                                            .dense_memory = colibri::memory_of_dense,
                                            .has_nccl = colibri::has_nccl,
                                            .nccl_version = colibri::nccl_version,
                                            .make_link = colibri::make_link};
  return &backend;
}
