#include "topology/gpu_memory_plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/units.h"

namespace colibri {
namespace {

constexpr int64_t kPagePositions = 64;
constexpr int64_t kFarTooMuch = int64_t{1} << 61;  // eight such numbers still add up

struct Item {
  const char* name;
  int64_t GpuNeed::*bytes;
};
constexpr std::array<Item, 7> kItems = {{{"experts", &GpuNeed::expert_bytes},
                                         {"weights", &GpuNeed::weight_bytes},
                                         {"kv cache", &GpuNeed::kv_cache_bytes},
                                         {"workspace", &GpuNeed::workspace_bytes},
                                         {"messages", &GpuNeed::message_bytes},
                                         {"logits", &GpuNeed::logits_bytes},
                                         {"nccl", &GpuNeed::nccl_bytes}}};

void check_size(const char* name, int64_t bytes) {
  if (bytes >= 0 && bytes < kFarTooMuch) return;
  fail(ErrorKind::kInput, "GPU memory plan: ", name, " is ", bytes, " bytes, want 0 to 2^61");
}

void check_options(const GpuPlanOptions& options) {
  check_size("library_workspace_bytes", options.library_workspace_bytes);
  check_size("nccl_bytes", options.nccl_bytes);
  check_size("staging_bytes", options.staging_bytes);
}

int64_t logits_bytes(const ModelShape& shape, const GpuPlanOptions& options) {
  return 4 * options.base.max_batch * shape.vocab_size;  // plan_memory has found that it fits
}

}  // namespace

int64_t nccl_buffer_bytes(int num_ranks) {
  if (num_ranks < 2) return 0;
  return num_ranks == 2 ? 342'000'000 : 392'000'000;
}

std::vector<GpuNeed> plan_gpu_memory(const ModelShape& shape, const Placement& placement,
                                     const GpuPlanOptions& options) {
  check_options(options);
  std::vector<GpuNeed> plan;
  for (const RankMemory& rank : plan_memory(shape, placement, options.base)) {
    const bool is_coordinator = plan.empty();
    GpuNeed need{.expert_bytes = rank.expert_bytes,
                 .weight_bytes = rank.weight_bytes,
                 .kv_cache_bytes = rank.kv_cache_bytes,
                 .workspace_bytes = rank.workspace_bytes,
                 .message_bytes = rank.message_bytes,
                 .nccl_bytes = options.nccl_bytes,
                 .staging_bytes = options.staging_bytes};
    if (is_coordinator) {
      need.logits_bytes = logits_bytes(shape, options);
      need.workspace_bytes += options.library_workspace_bytes - need.logits_bytes;
    }
    for (const Item& item : kItems) check_size(item.name, need.*item.bytes);
    plan.push_back(need);
  }
  return plan;
}

std::vector<int64_t> gpu_slot_capacities(const ModelShape& shape, const GpuPlanOptions& options,
                                         std::span<const int64_t> free_bytes) {
  check_options(options);
  const int num_ranks = static_cast<int>(free_bytes.size());
  MemoryPlanOptions base = options.base;
  base.process_bytes = options.nccl_bytes;  // of the GPU, on each rank
  base.coordinator_workspace_bytes += options.library_workspace_bytes;
  base.node_of_rank.clear();
  std::vector<NodeMemory> gpus;  // each GPU is a node of its own
  for (int rank = 0; rank < num_ranks; ++rank) {
    base.node_of_rank.push_back(rank);
    gpus.push_back({"GPU", free_bytes[static_cast<size_t>(rank)]});
  }
  return slot_capacities(shape, 0, base, gpus, num_ranks);
}

int64_t kv_positions_that_fit(const GpuNeed& need, int64_t kv_bytes_per_token, int64_t free_bytes) {
  const int64_t left = free_bytes - (need.total_bytes() - need.kv_cache_bytes);
  if (left <= 0 || kv_bytes_per_token <= 0) return 0;
  return left / kv_bytes_per_token / kPagePositions * kPagePositions;
}

void check_gpu_memory(int rank, const GpuNeed& need, const GpuInfo& gpu, const GpuMemory& memory) {
  if (need.total_bytes() <= memory.free_bytes) return;
  std::string items;
  for (const Item& item : kItems) {
    if (need.*item.bytes == 0) continue;
    items +=
        (items.empty() ? "" : ", ") + std::string(item.name) + " " + format_bytes(need.*item.bytes);
  }
  fail(ErrorKind::kEnvironment, "not enough memory on rank ", rank, "'s ", describe(gpu),
       ": it needs ", format_bytes(need.total_bytes()), " (", items, "), free are ",
       format_bytes(memory.free_bytes), " of ", format_bytes(memory.total_bytes),
       "; use more GPUs, a smaller --max-context, --max-batch or --chunk, smaller weights "
       "(--weights q8 or q4), or end what else runs on it");
}

namespace {

void pad_left(const std::string& text, size_t width, std::string& line) {
  if (text.size() < width) line.append(width - text.size(), ' ');
  line += text;
}

}  // namespace

std::string gpu_memory_table(std::span<const GpuNeed> plan, std::span<const GpuInfo> gpu_of_rank) {
  constexpr size_t kName = 10, kColumn = 11;
  std::string text = "GPU memory";
  for (const Item& item : kItems) pad_left(item.name, kColumn, text);
  pad_left("total", kColumn, text);
  text += "  of\n";
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    std::string line = "rank " + std::to_string(rank);
    line.resize(std::max(line.size(), kName), ' ');
    for (const Item& item : kItems) pad_left(format_bytes(plan[rank].*item.bytes), kColumn, line);
    pad_left(format_bytes(plan[rank].total_bytes()), kColumn, line);
    if (rank < gpu_of_rank.size()) {
      line += "  " + format_bytes(gpu_of_rank[rank].memory_bytes) + ", " + gpu_of_rank[rank].name;
    }
    text += line + '\n';
  }
  int64_t staging = 0;
  for (const GpuNeed& need : plan) staging += need.staging_bytes;
  if (staging > 0) text += "and " + format_bytes(staging) + " of pinned host memory\n";
  return text;
}

}  // namespace colibri
