#include "launch/rank_rooms.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/units.h"
#include "topology/gpu_memory_plan.h"
#include "topology/memory_plan.h"

namespace colibri {
namespace {

constexpr double kGpuWorkBytes = 4e9;  // activations, messages, graphs, the context: multi-gpu.md
constexpr int64_t kPage = 64;

double kv_bytes(const ModelShape& shape, int64_t batch, int64_t context) {
  const int64_t pages = (context + kPage) / kPage;  // with the token that is made
  return static_cast<double>(shape.kv_bytes_per_token) * static_cast<double>(pages * kPage) *
         static_cast<double>(batch);
}

// Of a CPU's rank by the formulas of the memory plan.
double cpu_work_bytes(const ModelShape& shape, const RankMap& ranks, int rank, int64_t batch) {
  const Placement even = contiguous_placement(shape, {.num_ranks = ranks.num_ranks()});
  MemoryPlanOptions sizes;
  sizes.max_batch = sizes.max_tokens = batch;
  const RankMemory memory = plan_memory(shape, even, sizes)[static_cast<size_t>(rank)];
  return static_cast<double>(memory.workspace_bytes + memory.message_bytes);
}

[[noreturn]] void fail_fixed(const ModelShape& shape, const RankRoom& room, size_t rank,
                             int64_t batch, int64_t context) {
  std::string items;
  double besides = room.fixed_bytes();
  for (const auto& [name, bytes] : room.fixed) {
    items += (items.empty() ? "" : ", ") + name + " " + format_bytes(static_cast<int64_t>(bytes));
    if (name == "keys and values") besides -= bytes;
  }
  const double left = room.have_bytes - besides;
  const double each = static_cast<double>(shape.kv_bytes_per_token);
  std::string change = "; no smaller --batch or --context fits: use smaller --dense-weights";
  if (const double most = left / (each * static_cast<double>(batch)); rank == 0 && most >= kPage) {
    change = "; --context " + std::to_string(static_cast<int64_t>(most) / kPage * kPage - 1) +
             " would fit";
  } else if (const double fewer = left / kv_bytes(shape, 1, context); rank == 0 && fewer >= 1) {
    change = "; --batch " + std::to_string(static_cast<int64_t>(fewer)) + " would fit";
  }
  fail(ErrorKind::kEnvironment, "rank ", rank, " has ",
       format_bytes(static_cast<int64_t>(room.have_bytes)), " and needs ", items,
       " before any expert: ", static_cast<int64_t>(room.fixed_bytes() - room.have_bytes),
       " bytes are missing", change);
}

}  // namespace

double RankRoom::fixed_bytes() const {
  double sum = 0;
  for (const auto& [name, bytes] : fixed) sum += bytes;
  return sum;
}

int64_t RankRoom::slots(int64_t expert_bytes) const {
  const double left = have_bytes - fixed_bytes();
  return left <= 0 || expert_bytes <= 0
             ? 0
             : static_cast<int64_t>(left / static_cast<double>(expert_bytes));
}

std::vector<RankRoom> rank_rooms(const ModelShape& shape, const RankMap& ranks, int64_t batch,
                                 int64_t context) {
  std::map<std::string, int> sharers;
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) ++sharers[ranks.part(rank).name];
  const auto& coordinators = ranks.coordinators();
  std::vector<RankRoom> rooms;
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    RankRoom room;
    const int64_t have =
        ranks.is_gpu(rank) ? ranks.device(rank).memory_bytes : ranks.part(rank).memory_bytes;
    room.have_bytes = static_cast<double>(have) / sharers[ranks.part(rank).name];
    if (std::find(coordinators.begin(), coordinators.end(), rank) != coordinators.end()) {
      const auto share = static_cast<double>(coordinators.size());
      room.fixed.emplace_back("weights", static_cast<double>(shape.coordinator_weight_bytes));
      room.fixed.emplace_back("keys and values", kv_bytes(shape, batch, context) / share);
    }
    if (ranks.is_gpu(rank)) {
      room.fixed.emplace_back("NCCL", static_cast<double>(nccl_buffer_bytes(ranks.num_ranks())));
      room.fixed.emplace_back("work space", kGpuWorkBytes);
    } else {
      room.fixed.emplace_back("work space", cpu_work_bytes(shape, ranks, rank, batch));
    }
    rooms.push_back(std::move(room));
  }
  return rooms;
}

std::vector<int64_t> slots_that_fit(const ModelShape& shape, const std::vector<RankRoom>& rooms,
                                    int64_t batch, int64_t context) {
  std::vector<int64_t> slots;
  const auto is_unknown = [](const RankRoom& room) { return room.have_bytes <= 0; };
  if (std::any_of(rooms.begin(), rooms.end(), is_unknown)) return slots;
  for (size_t rank = 0; rank < rooms.size(); ++rank) {
    if (rooms[rank].fixed_bytes() > rooms[rank].have_bytes) {
      fail_fixed(shape, rooms[rank], rank, batch, context);
    }
    slots.push_back(rooms[rank].slots(shape.expert_bytes));
  }
  return slots;
}

}  // namespace colibri
