// How many bytes each rank takes on its GPU, by name, known before the first byte is read. The host
// beside it needs staging and the process (memory_plan.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/model_shape.h"
#include "topology/gpu.h"
#include "topology/memory_plan.h"
#include "topology/placement.h"

namespace colibri {

struct GpuPlanOptions {
  MemoryPlanOptions base;
  // Of cuBLASLt and of attention split over the context, on the coordinator.
  int64_t library_workspace_bytes = 0;
  int64_t nccl_bytes = 0;     // as nccl_buffer_bytes(); 0 when rows travel over MPI
  int64_t staging_bytes = 0;  // pinned, on the host, each rank
};

// One rank's need. Plain data: what is known better later may be written into it.
struct GpuNeed {
  int64_t expert_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t kv_cache_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t message_bytes = 0;
  int64_t logits_bytes = 0;
  int64_t nccl_bytes = 0;
  int64_t staging_bytes = 0;  // host memory, no part of the total

  int64_t total_bytes() const {
    return expert_bytes + weight_bytes + kv_cache_bytes + workspace_bytes + message_bytes +
           logits_bytes + nccl_bytes;
  }
  friend bool operator==(const GpuNeed&, const GpuNeed&) = default;
};

// What NCCL's own buffers take on each GPU: 342 MB for two ranks, 392 MB for more, none for one.
// Source: NVIDIA aiconfigurator's tables for H100 and H200; not measured by us.
int64_t nccl_buffer_bytes(int num_ranks);

// [R], rank 0 the coordinator. Formulas and errors: as plan_memory; logits are 4 max_batch V.
std::vector<GpuNeed> plan_gpu_memory(const ModelShape& shape, const Placement& placement,
                                     const GpuPlanOptions& options);

// [R] slots that fit on each rank's GPU beside everything else, for PlacementOptions, with
// `free_bytes` [R].
std::vector<int64_t> gpu_slot_capacities(const ModelShape& shape, const GpuPlanOptions& options,
                                         std::span<const int64_t> free_bytes);

// Positions of the KV cache, all sequences together, that fit beside the rest of `need`; a multiple
// of 64; 0 when nothing does.
int64_t kv_positions_that_fit(const GpuNeed& need, int64_t kv_bytes_per_token, int64_t free_bytes);

// Fails with kEnvironment when `need` is more than the GPU has free: names rank, GPU, need, free,
// every item, and what to do. `memory`: read before anything was allocated.
void check_gpu_memory(int rank, const GpuNeed& need, const GpuInfo& gpu, const GpuMemory& memory);

// A table for people, one line a rank; the total beside the GPU's memory in all.
std::string gpu_memory_table(std::span<const GpuNeed> plan, std::span<const GpuInfo> gpu_of_rank);

}  // namespace colibri
