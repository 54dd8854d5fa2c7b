#include "topology/gpu_memory_plan.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/units.h"

namespace colibri {
namespace {

constexpr int64_t kPagePositions = 64;
constexpr int64_t kFarTooMuch = int64_t{1} << 58;  // sixteen such numbers still add up
constexpr int64_t kGraphBytes = 24'000'000;
constexpr const char* kWhatToDo =
    "; use more GPUs, a smaller --max-context, --max-batch or --chunk, smaller weights (--weights "
    "q8 or q4), or end what else runs there";

struct Item {
  const char* name;
  int64_t GpuNeed::*bytes;
};
constexpr std::array<Item, 10> kItems = {{{"experts", &GpuNeed::expert_bytes},
                                          {"weights", &GpuNeed::weight_bytes},
                                          {"kv cache", &GpuNeed::kv_cache_bytes},
                                          {"workspace", &GpuNeed::workspace_bytes},
                                          {"messages", &GpuNeed::message_bytes},
                                          {"logits", &GpuNeed::logits_bytes},
                                          {"cublaslt", &GpuNeed::library_bytes},
                                          {"bench", &GpuNeed::bench_bytes},
                                          {"graphs est.", &GpuNeed::graph_bytes},
                                          {"nccl", &GpuNeed::nccl_bytes}}};

void check_sizes(const GpuNeed& need) {
  for (const Item& item : kItems) {
    const int64_t bytes = need.*item.bytes;
    if (bytes >= 0 && bytes < kFarTooMuch) continue;
    fail(ErrorKind::kInput, "GPU memory plan: ", item.name, " is ", bytes,
         " bytes, want 0 to 2^58; want a smaller --max-context, --max-batch or --chunk");
  }
}

std::string items_text(const GpuNeed& need) {
  std::string items;
  for (const Item& item : kItems) {
    if (need.*item.bytes == 0) continue;
    items += items.empty() ? "" : ", ";
    items += std::string(item.name) + " " + format_bytes(need.*item.bytes);
  }
  return items;
}

}  // namespace

int64_t nccl_buffer_bytes(int num_ranks) {
  if (num_ranks < 2) return 0;
  return num_ranks == 2 ? 342'000'000 : 392'000'000;
}

int64_t graph_bytes_estimate(int64_t num_graphs) { return num_graphs * kGraphBytes; }

std::vector<int64_t> gpu_slot_capacities(std::span<const GpuNeed> fixed, int64_t slot_bytes,
                                         std::span<const GpuMemory> memory) {
  check(fixed.size() == memory.size() && slot_bytes > 0, "needs of ", fixed.size(), " GPUs, want ",
        memory.size(), ", slots of ", slot_bytes, " bytes");
  std::vector<int64_t> capacity;
  for (size_t rank = 0; rank < fixed.size(); ++rank) {
    check_sizes(fixed[rank]);
    const int64_t left = memory[rank].free_bytes - fixed[rank].total_bytes();
    capacity.push_back(std::max<int64_t>(left, 0) / slot_bytes);
  }
  return capacity;
}

void check_expert_room(const ExpertRoom& room) {
  int64_t left_over = room.num_slots;
  for (const int64_t slots : room.capacity_slots) left_over -= std::min(slots, left_over);
  if (left_over == 0) return;
  std::string ranks;
  for (size_t rank = 0; rank < room.capacity_slots.size(); ++rank) {
    ranks += (rank == 0 ? "rank " : ", rank ") + std::to_string(rank) + "'s GPU " +
             std::to_string(room.gpu_of_rank[rank].ordinal) + " has room for " +
             std::to_string(room.capacity_slots[rank]) + " beside " +
             format_bytes(room.fixed[rank].total_bytes()) + " of other things in " +
             format_bytes(room.memory[rank].free_bytes);
  }
  fail(ErrorKind::kEnvironment, "not enough memory for the experts: of ", room.num_slots,
       " (all layers, ", format_bytes(room.slot_bytes), " each) ", left_over, " fit nowhere, ",
       format_bytes(left_over * room.slot_bytes), ": ", ranks, kWhatToDo);
}

int64_t kv_positions_that_fit(const GpuNeed& need, int64_t kv_bytes_per_token, int64_t free_bytes) {
  const int64_t left = free_bytes - (need.total_bytes() - need.kv_cache_bytes);
  if (left <= 0 || kv_bytes_per_token <= 0) return 0;
  return left / kv_bytes_per_token / kPagePositions * kPagePositions;
}

void check_gpu_memory(int rank, const GpuNeed& need, const GpuInfo& gpu, const GpuMemory& memory) {
  check_sizes(need);
  const bool starts = need.start_bytes <= memory.free_bytes;
  if (starts && need.total_bytes() <= memory.free_bytes) return;
  const int64_t wanted = starts ? need.total_bytes() : need.start_bytes;
  fail(ErrorKind::kEnvironment, "not enough memory on rank ", rank, "'s ", describe(gpu),
       ": it needs ", format_bytes(wanted), " (",
       starts ? items_text(need) : "to try dense products at the start", "), free are ",
       format_bytes(memory.free_bytes), " of ", format_bytes(memory.total_bytes), kWhatToDo);
}

void check_gpu_taken(int rank, const GpuNeed& need, const GpuTaken& taken) {
  const auto refuse = [rank](const char* what, int64_t planned, int64_t got) {
    fail(ErrorKind::kInternal, "memory of rank ", rank, "'s GPU: ", what, " took ", got,
         " bytes, planned were ", planned, "; please report it");
  };
  if (taken.expert_bytes != need.expert_bytes) {
    refuse("experts", need.expert_bytes, taken.expert_bytes);
  }
  if (taken.weight_bytes != need.weight_bytes) {
    refuse("weights", need.weight_bytes, taken.weight_bytes);
  }
  if (taken.allocated_bytes > need.allocated_bytes()) {
    refuse("all together", need.allocated_bytes(), taken.allocated_bytes);
  }
  if (taken.staging_bytes > need.staging_bytes) {
    refuse("pinned host memory", need.staging_bytes, taken.staging_bytes);
  }
}

void check_host_memory(std::span<const GpuNeed> plan, int64_t usable_bytes) {
  const auto need_of = [&](size_t rank) {
    return plan[rank].staging_bytes + plan[rank].host_bytes;
  };
  int64_t bytes = 0;
  size_t most = 0;
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    bytes += need_of(rank);
    if (need_of(rank) > need_of(most)) most = rank;
  }
  if (bytes <= usable_bytes) return;
  fail(ErrorKind::kEnvironment,
       "not enough host memory on this machine: beside their GPUs its ranks need ",
       format_bytes(bytes), ", available are ", format_bytes(usable_bytes), "; rank ", most,
       " needs most, ", format_bytes(need_of(most)), ", of which pinned ",
       format_bytes(plan[most].staging_bytes),
       "; end what else runs here, or use a smaller --chunk or --max-batch");
}

namespace {

void pad_left(const std::string& text, size_t width, std::string& line) {
  if (text.size() < width) line.append(width - text.size(), ' ');
  line += text;
}

std::vector<Item> items_in(std::span<const GpuNeed> plan) {
  std::vector<Item> used;
  for (const Item& item : kItems) {
    const auto needs = [&](const GpuNeed& need) { return need.*item.bytes != 0; };
    if (std::any_of(plan.begin(), plan.end(), needs)) used.push_back(item);
  }
  return used;
}

}  // namespace

std::string gpu_memory_table(std::span<const GpuNeed> plan, std::span<const GpuInfo> gpu_of_rank) {
  constexpr size_t kName = 10, kColumn = 12;
  const std::vector<Item> items = items_in(plan);
  std::string text = "GPU memory";
  for (const Item& item : items) pad_left(item.name, kColumn, text);
  pad_left("total", kColumn, text);
  text += "  of\n";
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    std::string line = "rank " + std::to_string(rank);
    line.resize(std::max(line.size(), kName), ' ');
    for (const Item& item : items) pad_left(format_bytes(plan[rank].*item.bytes), kColumn, line);
    pad_left(format_bytes(plan[rank].total_bytes()), kColumn, line);
    if (rank < gpu_of_rank.size()) {
      line += "  " + format_bytes(gpu_of_rank[rank].memory_bytes) + ", " + gpu_of_rank[rank].name;
    }
    text += line + '\n';
  }
  int64_t pinned = 0, host = 0;
  for (const GpuNeed& need : plan) {
    pinned += need.staging_bytes;
    host += need.staging_bytes + need.host_bytes;
  }
  text += "and " + format_bytes(host) + " of host memory, of which pinned " + format_bytes(pinned) +
          '\n';
  return text;
}

}  // namespace colibri
