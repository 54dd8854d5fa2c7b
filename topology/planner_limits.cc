#include "topology/planner_limits.h"

#include <algorithm>

#include "base/error.h"

namespace colibri {

void check_sizes(const PlanRequest& request) {
  const size_t num_ranks = request.terms.row_us.size();
  if (num_ranks == 0) fail(ErrorKind::kInput, "a plan for no ranks");
  const auto check_length = [&](size_t length, const char* what) {
    if (length == 0 || length == num_ranks) return;
    fail(ErrorKind::kInput, what, " of ", length, " ranks, want ", num_ranks);
  };
  check_length(request.capacity_slots.size(), "room");
  check_length(request.domain_of_rank.size(), "domains");
  if (request.loads != nullptr && request.loads->fingerprint != request.shape.fingerprint) {
    fail(ErrorKind::kInput, "loads of model ", request.loads->family, " (",
         request.loads->fingerprint, "), this model is ", request.shape.family, " (",
         request.shape.fingerprint, ")");
  }
  const Placement* previous = request.previous;
  if (previous == nullptr) return;
  if (previous->num_ranks() != static_cast<int>(num_ranks)) {
    fail(ErrorKind::kInput, "the previous placement is for ", previous->num_ranks(),
         " ranks, the plan for ", num_ranks);
  }
  if (previous->num_layers() != request.shape.num_layers ||
      previous->num_experts() != request.shape.num_experts) {
    fail(ErrorKind::kInput, "the previous placement is for another model");
  }
}

static int64_t need_slots(const ModelShape& shape) {
  return int64_t{shape.num_moe_layers()} * shape.num_experts;
}

// Capacities in sum, none more than all experts.
static int64_t total_room(const PlanRequest& request) {
  int64_t room = 0;
  for (const int64_t slots : request.capacity_slots) {
    room += std::clamp<int64_t>(slots, 0, need_slots(request.shape));
  }
  return room;
}

void check_room(const PlanRequest& request) {
  const int64_t need = need_slots(request.shape), room = total_room(request);
  if (request.capacity_slots.empty() || room >= need) return;
  const int64_t bytes = request.shape.expert_bytes;
  std::string each;
  for (size_t rank = 0; rank < request.capacity_slots.size(); ++rank) {
    each += (rank == 0 ? "rank " : ", rank ") + std::to_string(rank) + " " +
            std::to_string(request.capacity_slots[rank]);
  }
  fail(ErrorKind::kEnvironment, "the experts do not fit: ", need, " slots of ", bytes,
       " bytes, the memory of ", request.capacity_slots.size(), " ranks holds ", room, " (", each,
       "): ", (need - room) * bytes, " bytes are missing, which is ", need - room,
       " experts more on any rank");
}

int64_t slots_that_survive(const PlanRequest& request) {
  int64_t most = 0;
  size_t rank_of_most = 0;
  for (size_t rank = 1; rank < request.capacity_slots.size(); ++rank) {
    const int64_t slots =
        std::clamp<int64_t>(request.capacity_slots[rank], 0, need_slots(request.shape));
    if (slots <= most) continue;
    most = slots;
    rank_of_most = rank;
  }
  const int64_t room = total_room(request) - most, need = need_slots(request.shape);
  if (room < need) {
    fail(ErrorKind::kEnvironment, "--survive 1: without rank ", rank_of_most, " the others hold ",
         room, " experts (all layers) of ", request.shape.expert_bytes, " bytes, the model has ",
         need, ": ", (need - room) * request.shape.expert_bytes, " bytes are missing, which is ",
         need - room, " experts more on other ranks");
  }
  return room;
}

}  // namespace colibri
