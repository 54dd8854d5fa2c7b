#include "coordinator/dispatch_plan.h"

#include <utility>

#include "base/error.h"

namespace colibri {
namespace {

SlotRef chosen_slot(const RouterChoice& choice, const Placement& placement, int64_t token,
                    int64_t k) {
  const int32_t expert = choice.expert_ids[static_cast<size_t>(token * choice.top_k + k)];
  check(expert >= 0 && expert < placement.num_experts(), "layer ", choice.layer, " token ", token,
        " choice ", k, " is expert ", expert, ", want [0, ", placement.num_experts(), ")");
  const auto slots = placement.slots_of(choice.layer, expert);
  return slots[static_cast<size_t>(token) % slots.size()];
}

// Rows and pairs of each rank, as running sums: the first pass of a counting sort.
struct Cursor {
  std::vector<int32_t> row, pair;   // [R] next free
  std::vector<int64_t> last_token;  // [R] whose row is open
};

void count_rows_and_pairs(const RouterChoice& choice, const Placement& placement, Cursor& at) {
  for (int64_t token = 0; token < choice.num_tokens; ++token) {
    for (int64_t k = 0; k < choice.top_k; ++k) {
      const auto rank = static_cast<size_t>(chosen_slot(choice, placement, token, k).rank);
      if (at.last_token[rank] != token) ++at.row[rank];
      at.last_token[rank] = token;
      ++at.pair[rank];
    }
  }
}

// Turns counts into first positions; fills row_begin.
void turn_into_offsets(Cursor& at, DispatchPlan& plan) {
  int32_t rows = 0, pairs = 0;
  for (size_t rank = 0; rank < at.row.size(); ++rank) {
    plan.row_begin[rank] = rows;
    rows += std::exchange(at.row[rank], rows);
    pairs += std::exchange(at.pair[rank], pairs);
    at.last_token[rank] = -1;
  }
  plan.row_begin[at.row.size()] = rows;
  plan.row_token.resize(static_cast<size_t>(rows));
  plan.pair_begin.resize(static_cast<size_t>(rows) + 1);
  plan.pair_begin[static_cast<size_t>(rows)] = pairs;
  plan.slot.resize(static_cast<size_t>(pairs));
}

void place_pair(const SlotRef& ref, int64_t token, Cursor& at, DispatchPlan& plan) {
  const auto rank = static_cast<size_t>(ref.rank);
  if (at.last_token[rank] != token) {
    const auto row = static_cast<size_t>(at.row[rank]++);
    plan.row_token[row] = static_cast<int32_t>(token);
    plan.pair_begin[row] = at.pair[rank];
    at.last_token[rank] = token;
  }
  plan.slot[static_cast<size_t>(at.pair[rank])] = ref.slot;
}

}  // namespace

void plan_dispatch(const RouterChoice& choice, const Placement& placement, DispatchPlan& plan) {
  const auto num_pairs = static_cast<size_t>(choice.num_tokens * choice.top_k);
  check(choice.expert_ids.size() == num_pairs && num_pairs < (size_t{1} << 31),
        "plan_dispatch has ", choice.expert_ids.size(), " ids, want T * K = ", num_pairs);
  const auto num_ranks = static_cast<size_t>(placement.num_ranks());
  Cursor at{std::vector<int32_t>(num_ranks, 0), std::vector<int32_t>(num_ranks, 0),
            std::vector<int64_t>(num_ranks, -1)};
  plan.row_begin.resize(num_ranks + 1);
  plan.pair_of_choice.resize(num_pairs);
  count_rows_and_pairs(choice, placement, at);
  turn_into_offsets(at, plan);
  for (int64_t token = 0; token < choice.num_tokens; ++token) {
    for (int64_t k = 0; k < choice.top_k; ++k) {
      const SlotRef ref = chosen_slot(choice, placement, token, k);
      place_pair(ref, token, at, plan);
      plan.pair_of_choice[static_cast<size_t>(token * choice.top_k + k)] =
          at.pair[static_cast<size_t>(ref.rank)]++;
    }
  }
}

}  // namespace colibri
