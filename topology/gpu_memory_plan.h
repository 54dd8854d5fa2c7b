// How many bytes each rank takes on its GPU, by name, known before the first byte is read: the
// lines, what fits, and what is held against them afterwards. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/gpu.h"

namespace colibri {

// One rank's need. Plain data: who makes the parts fills it (launch/session_plan.cc).
struct GpuNeed {
  int64_t expert_bytes = 0;  // weights of its slots, as they lie there
  int64_t weight_bytes = 0;  // the coordinator's weights
  int64_t kv_cache_bytes = 0;
  int64_t workspace_bytes = 0;  // activations, scratch of attention, step inputs, tables
  int64_t message_bytes = 0;    // rows and results under way
  int64_t logits_bytes = 0;
  int64_t library_bytes = 0;  // cuBLASLt's workspace and padded copies
  int64_t bench_bytes = 0;    // what is written between operations that are timed
  int64_t graph_bytes = 0;    // graph_bytes_estimate(): an estimate
  int64_t nccl_bytes = 0;     // nccl_buffer_bytes(): a published figure
  int64_t start_bytes = 0;    // besides: taken and given back before weights are loaded
  int64_t staging_bytes = 0;  // of the host, pinned
  int64_t host_bytes = 0;     // of the host, not pinned

  // What colibri asks the device for: all but graphs and NCCL, which take theirs by themselves.
  int64_t allocated_bytes() const {
    return expert_bytes + weight_bytes + kv_cache_bytes + workspace_bytes + message_bytes +
           logits_bytes + library_bytes + bench_bytes;
  }
  int64_t total_bytes() const { return allocated_bytes() + graph_bytes + nccl_bytes; }
  friend bool operator==(const GpuNeed&, const GpuNeed&) = default;
};

// What NCCL's own buffers take on each GPU: 342 MB for two ranks, 392 MB for more, none for one.
// Source: NVIDIA aiconfigurator's tables for H100 and H200; not measured by us.
int64_t nccl_buffer_bytes(int num_ranks);

// What `num_graphs` captured steps may take in the driver: 24 MB each, about what another engine
// was reported to see for whole decode steps (vllm issue 50780). An estimate; not measured by us.
int64_t graph_bytes_estimate(int64_t num_graphs);

// [R] slots (all layers together) of slot_bytes each that fit on each rank's GPU beside `fixed`
// [R], what the rank needs were all experts on it; for PlacementOptions. 0 where nothing fits.
// Errors: kInput when a size is negative or past 2^58 (named).
std::vector<int64_t> gpu_slot_capacities(std::span<const GpuNeed> fixed, int64_t slot_bytes,
                                         std::span<const GpuMemory> memory);

// All experts and where they may lie.
struct ExpertRoom {
  int64_t num_slots = 0;  // experts of all layers
  int64_t slot_bytes = 0;
  std::span<const int64_t> capacity_slots;    // [R]
  std::span<const GpuNeed> fixed = {};        // [R]
  std::span<const GpuInfo> gpu_of_rank = {};  // [R]
  std::span<const GpuMemory> memory = {};     // [R]
};
// Fails with kEnvironment when the experts fit nowhere: names what is left over, each rank with its
// GPU's room and what else lies there, and what to do.
void check_expert_room(const ExpertRoom& room);

// Positions of the KV cache, all sequences together, that fit beside the rest of `need`; a multiple
// of 64; 0 when nothing does.
int64_t kv_positions_that_fit(const GpuNeed& need, int64_t kv_bytes_per_token, int64_t free_bytes);

// Fails with kEnvironment when `need`, or what it takes at the start, is more than the GPU has
// free: names rank, GPU, need, free, every item, and what to do. `memory`: read before anything was
// allocated.
void check_gpu_memory(int rank, const GpuNeed& need, const GpuInfo& gpu, const GpuMemory& memory);

// What a rank took, as its device counted it.
struct GpuTaken {
  int64_t expert_bytes = 0, weight_bytes = 0;
  int64_t allocated_bytes = 0;  // of the device, in all
  int64_t staging_bytes = 0;
};
// Fails with kInternal naming rank, line, plan and taken when the weights are not exactly what was
// planned, or when the rest is more.
void check_gpu_taken(int rank, const GpuNeed& need, const GpuTaken& taken);

// Fails with kEnvironment when the ranks of a machine need more host memory than it has: names
// need, available, the rank that needs most and what to do.
void check_host_memory(std::span<const GpuNeed> plan, int64_t usable_bytes);

// A table for people, one line a rank; the total beside the GPU's memory in all. Lines that no rank
// needs are left out.
std::string gpu_memory_table(std::span<const GpuNeed> plan, std::span<const GpuInfo> gpu_of_rank);

}  // namespace colibri
