#include "launch/gpu_plan.h"

#include <algorithm>

#include "launch/cuda_backend.h"
#include "topology/gpu_memory_plan.h"

namespace colibri {
namespace {

constexpr int64_t kStretchBytes = 64 << 20;  // as worker/load_to_backend.cc has it

}  // namespace

void check_gpu_plan(const ModelShape& shape, const Placement& placement,
                    const MemoryPlanOptions& sizes, RankContext& context) {
  const ChosenDevice& device = context.device;
  GpuPlanOptions plan_options{.base = sizes};
  if (device.over_nccl) plan_options.nccl_bytes = nccl_buffer_bytes(context.size);
  std::vector<GpuNeed> plan = plan_gpu_memory(shape, placement, plan_options);
  // Two pinned stretches, read and copied in turn; each holds the largest matrix.
  for (GpuNeed& need : plan) need.staging_bytes = 2 * kStretchBytes;
  plan[0].staging_bytes = 2 * std::max(kStretchBytes, shape.head_bytes);
  if (context.is_root()) {
    context.log->info("GPU memory plan\n{}", gpu_memory_table(plan, device.gpu_of_rank));
  }
  check_gpu_memory(context.rank, plan[static_cast<size_t>(context.rank)], device.gpu,
                   device.backend->read_gpu_memory(device.gpu.ordinal));
}

}  // namespace colibri
