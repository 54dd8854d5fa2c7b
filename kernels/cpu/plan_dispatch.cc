// The dispatch plan as a counting sort over ranks; coordinator/dispatch_plan.cc makes the same from
// a placement.
#include <array>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

class Planner {
 public:
  explicit Planner(const PlanDispatch& a)
      : a_(a), num_real_(a.num_real_tokens == nullptr ? a.num_tokens : *a.num_real_tokens) {}

  void run() {
    next_row_.fill(0);
    next_pair_.fill(0);
    for_each_choice([&](int64_t, int64_t, ExpertSlot to, bool opens_row) {
      if (opens_row) ++next_row_[index(to.rank)];
      ++next_pair_[index(to.rank)];
    });
    turn_counts_into_offsets();
    for_each_choice([&](int64_t token, int64_t k, ExpertSlot to, bool opens_row) {
      const int32_t pair = next_pair_[index(to.rank)]++;
      if (opens_row) {
        const int32_t row = next_row_[index(to.rank)]++;
        a_.row_token[row] = static_cast<int32_t>(token);
        a_.pair_begin[row] = pair;
      }
      a_.slot[pair] = to.slot;
      a_.pair_of_choice[token * a_.top_k + k] = pair;
    });
  }

 private:
  static size_t index(int32_t rank) { return static_cast<size_t>(rank); }

  // Calls body(token, k, where it goes, whether it is the token's first for that rank).
  template <class Body>
  void for_each_choice(const Body& body) {
    last_token_.fill(-1);
    for (int64_t token = 0; token < a_.num_tokens; ++token) {
      const int32_t* ids = a_.expert_ids + token * a_.top_k;
      if (token >= num_real_ || ids[0] < 0) {
        if (token < num_real_) *a_.flags |= kFlagNotFinite;
        std::fill_n(a_.pair_of_choice + token * a_.top_k, a_.top_k, -1);
        continue;
      }
      for (int64_t k = 0; k < a_.top_k; ++k) {
        const int32_t first = a_.slot_begin[ids[k]];
        const int32_t copies = a_.slot_begin[ids[k] + 1] - first;
        const ExpertSlot to = a_.slots[first + token % copies];
        body(token, k, to, last_token_[index(to.rank)] != token);
        last_token_[index(to.rank)] = token;
      }
    }
  }

  void turn_counts_into_offsets() {
    int32_t rows = 0, pairs = 0;
    for (int32_t rank = 0; rank < a_.num_ranks; ++rank) {
      a_.row_begin[rank] = rows;
      a_.rank_pair_begin[rank] = pairs;
      rows += std::exchange(next_row_[index(rank)], rows);
      pairs += std::exchange(next_pair_[index(rank)], pairs);
    }
    a_.row_begin[a_.num_ranks] = rows;
    a_.rank_pair_begin[a_.num_ranks] = pairs;
    a_.pair_begin[rows] = pairs;
  }

  const PlanDispatch& a_;
  int64_t num_real_;
  std::array<int32_t, kMaxPlannedRanks> next_row_, next_pair_;
  std::array<int64_t, kMaxPlannedRanks> last_token_;
};

}  // namespace

void CpuOps::plan_dispatch(const PlanDispatch& a, Stream&) {
  check(a.num_ranks >= 1 && a.num_ranks <= kMaxPlannedRanks, "a plan for ", a.num_ranks,
        " ranks, want 1 to ", kMaxPlannedRanks);
  Planner(a).run();
}

}  // namespace colibri
