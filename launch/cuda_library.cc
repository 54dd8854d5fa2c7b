// The one symbol of libcolibri_cuda.so.
#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/cuda_device.h"
#include "base/error.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/dense.h"
#include "launch/cuda_backend.h"
#include "launch/run_config.h"
#include "topology/probe_cuda.h"
#include "transport/member_link.h"
#include "transport/nccl_comm.h"

namespace colibri {
namespace {

// A member's death ends every wait: its process is watched by the host's transport.
void fail_if_a_peer_died(Transport& host, const std::vector<int>& members) {
  host.progress();
  for (const int rank : host.dead_ranks()) {
    const bool is_member = std::find(members.begin(), members.end(), rank) != members.end();
    if (is_member) fail(ErrorKind::kRankLost, "rank ", rank, " has died");
  }
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
  std::vector<int> members = parts.members;
  if (!parts.id) {
    members.resize(static_cast<size_t>(host->size()));
    std::iota(members.begin(), members.end(), 0);
  }
  const auto own = std::find(members.begin(), members.end(), host->rank());
  NcclOptions options;
  options.rank = static_cast<int>(own - members.begin());
  options.num_ranks = static_cast<int>(members.size());
  options.id =
      parts.id ? *parts.id : share_nccl_id(*host, Deadline::after_ms(parts.start_timeout_ms));
  options.start_timeout_ms = parts.start_timeout_ms;
  options.post_timeout_ms = parts.step_timeout_ms;
  options.may_spin = parts.may_spin;
  options.poll = [host, members] { fail_if_a_peer_died(*host, members); };
  return make_member_link(make_nccl_comm(device, options), std::move(members), host->size());
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
                                            .make_link_id = colibri::make_nccl_id,
                                            .make_link = colibri::make_link};
  return &backend;
}
