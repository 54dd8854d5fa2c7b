#include "topology/layer_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "base/error.h"

namespace colibri {
namespace {

// Ranks this close to their mean are level.
constexpr double kLevel = 1e-4;
constexpr size_t kAskedTogether = 5;
constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<size_t> holders_of(const LayerProblem& problem) {
  std::vector<size_t> holders;
  for (size_t rank = 0; rank < problem.most_slots.size(); ++rank) {
    if (problem.most_slots[rank] > 0) holders.push_back(rank);
  }
  return holders;
}

int domain_of(const LayerProblem& problem, size_t rank) {
  const auto& domains = problem.request->domain_of_rank;
  return domains.empty() ? static_cast<int>(rank) : domains[rank];
}

bool is_in_domain(const LayerProblem& problem, const LayerLists& lists, int32_t expert,
                  int domain) {
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    if (domain_of(problem, rank) != domain) continue;
    if (std::find(lists[rank].begin(), lists[rank].end(), expert) != lists[rank].end()) return true;
  }
  return false;
}

// Slots in descending order of what they cost: (expert) once for each slot.
std::vector<int32_t> ordered_slots(const LayerState& state, size_t rank) {
  const auto& counts = state.counts();
  std::vector<int32_t> experts(counts.size());
  std::iota(experts.begin(), experts.end(), 0);
  std::vector<double> us(counts.size());
  for (size_t e = 0; e < us.size(); ++e) us[e] = state.slot_us(static_cast<int32_t>(e), rank);
  std::stable_sort(experts.begin(), experts.end(), [&](int32_t a, int32_t b) {
    return us[static_cast<size_t>(a)] > us[static_cast<size_t>(b)];
  });
  std::vector<int32_t> slots;
  for (const int32_t expert : experts) {
    slots.insert(slots.end(), static_cast<size_t>(counts[static_cast<size_t>(expert)]), expert);
  }
  return slots;
}

class Spreader {
 public:
  explicit Spreader(const LayerState& state)
      : state_(state),
        problem_(state.problem()),
        holders_(holders_of(problem_)),
        lists_(problem_.most_slots.size()),
        us_(lists_.size()) {}

  LayerLists run() {
    for (const int32_t expert : ordered_slots(state_, holders_.at(0))) place(expert);
    return std::move(lists_);
  }

 private:
  bool holds(size_t rank, int32_t expert) const {
    return std::find(lists_[rank].begin(), lists_[rank].end(), expert) != lists_[rank].end();
  }
  bool is_full(size_t rank) const {
    return static_cast<int>(lists_[rank].size()) >= problem_.most_slots[rank];
  }

  void place(int32_t expert) {
    size_t best = lists_.size(), apart = lists_.size();
    double least = kNever, least_apart = kNever;
    const bool has_replicas = state_.counts()[static_cast<size_t>(expert)] > 1;
    for (const size_t rank : holders_) {
      if (is_full(rank) || holds(rank, expert)) continue;
      const double done = us_[rank] + state_.slot_us(expert, rank);
      if (done < least) {
        least = done;
        best = rank;
      }
      if (!has_replicas || done >= least_apart) continue;
      if (is_in_domain(problem_, lists_, expert, domain_of(problem_, rank))) continue;
      least_apart = done;
      apart = rank;
    }
    if (best == lists_.size()) return make_room(expert);
    // Another domain, where that costs next to nothing.
    if (apart != lists_.size() && least_apart <= least * 1.01) best = apart;
    put(best, expert);
  }

  void put(size_t rank, int32_t expert) {
    lists_[rank].push_back(expert);
    us_[rank] += state_.slot_us(expert, rank);
  }

  // All ranks with room hold the expert already: one of them takes another rank's slot instead.
  void make_room(int32_t expert) {
    for (const size_t roomy : holders_) {
      if (is_full(roomy)) continue;
      for (const size_t rank : holders_) {
        if (holds(rank, expert)) continue;
        for (int32_t& slot : lists_[rank]) {
          if (holds(roomy, slot)) continue;
          us_[rank] += state_.slot_us(expert, rank) - state_.slot_us(slot, rank);
          put(roomy, slot);
          slot = expert;
          return;
        }
      }
    }
    fail(ErrorKind::kInternal, "no rank has room for a slot of expert ", expert);
  }

  const LayerState& state_;
  const LayerProblem& problem_;
  std::vector<size_t> holders_;
  LayerLists lists_;
  std::vector<double> us_;
};

class Improver {
 public:
  Improver(LayerState& state, double least_gain, int64_t max_moves)
      : state_(state),
        problem_(state.problem()),
        holders_(holders_of(problem_)),
        least_gain_(least_gain),
        moves_left_(max_moves < 0 ? std::numeric_limits<int64_t>::max() : max_moves) {}

  void run() {
    level();
    if (problem_.request->ignores_links) return;
    const LayerTime time = state_.time();
    if (time.dispatch_us + time.combine_us > 1e-9) cross_links();
  }

 private:
  struct Change {
    size_t from = 0, slot = 0, to = 0;
    int back = -1;
    double value = kNever;
  };

  bool has_room(size_t rank) const {
    return static_cast<int>(state_.lists()[rank].size()) < problem_.most_slots[rank];
  }
  int64_t moves_of(const Change& change) const { return change.back >= 0 ? 2 : 1; }

  // What no rank can be below.
  double mean_us() const {
    double sum = 0;
    for (const size_t rank : holders_) sum += state_.rank_us(rank);
    return sum / static_cast<double>(holders_.size());
  }

  // The slowest rank hands slots on until nothing helps.
  void level() {
    const size_t limit = 4 * state_.counts().size() + 64;
    const double enough = mean_us() * (1 + kLevel);
    for (size_t round = 0; round < limit; ++round) {
      const size_t from = state_.slowest();
      if (state_.rank_us(from) <= enough) return;
      const Change change = best_of(from);
      const double now = state_.rank_us(from);
      if (change.value >= now * (1 - least_gain_) - 1e-12) return;
      if (moves_of(change) > moves_left_) return;
      moves_left_ -= moves_of(change);
      state_.move(change.from, change.slot, change.to, change.back);
    }
  }

  // The change that leaves the smaller of the two ranks' larger time; ranks with least are asked
  // first.
  Change best_of(size_t from) const {
    std::vector<size_t> order;
    for (const size_t rank : holders_) {
      if (state_.rank_us(rank) < state_.rank_us(from)) order.push_back(rank);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return state_.rank_us(a) < state_.rank_us(b); });
    Change best;
    const size_t num_slots = state_.lists()[from].size();
    for (size_t i = 0; i < order.size(); ++i) {
      for (size_t slot = 0; slot < num_slots; ++slot) try_slot(from, slot, order[i], best);
      const bool is_asked = i % kAskedTogether == kAskedTogether - 1;
      if (is_asked && best.value < state_.rank_us(from) * (1 - least_gain_)) break;
    }
    return best;
  }

  void try_slot(size_t from, size_t slot, size_t to, Change& best) const {
    const int32_t expert = state_.lists()[from][slot];
    const double less = state_.rank_us(from) - state_.slot_us(expert, from);
    if (less >= best.value || state_.holds(to, expert)) return;
    const double more = state_.rank_us(to) + state_.slot_us(expert, to);
    if (has_room(to) && std::max(less, more) < best.value) {
      best = {from, slot, to, -1, std::max(less, more)};
    }
    const auto& others = state_.lists()[to];
    for (size_t back = 0; back < others.size(); ++back) {
      const int32_t other = others[back];
      const double a = less + state_.slot_us(other, from), b = more - state_.slot_us(other, to);
      if (std::max(a, b) >= best.value || state_.holds(from, other)) continue;
      best = {from, slot, to, static_cast<int>(back), std::max(a, b)};
    }
  }

  // Tries swaps and moves in a fixed order, as many as `effort` allows, and keeps what makes the
  // whole layer faster.
  void cross_links() {
    int tries = problem_.request->effort;
    uint64_t turn = 0;
    double now = state_.time().total_us();
    while (tries > 0) {
      bool found = false;
      for (size_t a = 0; a < holders_.size() && tries > 0; ++a) {
        for (size_t b = 0; b < holders_.size() && tries > 0; ++b) {
          if (a == b) continue;
          --tries;
          found = try_pair(holders_[a], holders_[b], ++turn, now) || found;
        }
      }
      if (!found && turn > 64 * holders_.size() * holders_.size()) return;
    }
  }

  bool try_pair(size_t from, size_t to, uint64_t turn, double& now) {
    const auto &mine = state_.lists()[from], &others = state_.lists()[to];
    if (mine.empty() || moves_left_ < 2) return false;
    // Multiplying by large odd numbers visits slots without a pattern, the same every time.
    const size_t slot = turn * 0x9e3779b1u % mine.size();
    const size_t choices = others.size() + (has_room(to) && mine.size() > 1 ? 1 : 0);
    if (choices == 0) return false;
    const size_t which = turn * 0x85ebca6bu / 7 % choices;
    const int back = which == others.size() ? -1 : static_cast<int>(which);
    if (state_.holds(to, mine[slot])) return false;
    if (back >= 0 && state_.holds(from, others[which])) return false;
    const double total = state_.total_after(from, slot, to, back);
    if (total >= now * (1 - least_gain_) - 1e-12) return false;
    moves_left_ -= back >= 0 ? 2 : 1;
    state_.move(from, slot, to, back);
    now = total;
    return true;
  }

  LayerState& state_;
  const LayerProblem& problem_;
  std::vector<size_t> holders_;
  double least_gain_;
  int64_t moves_left_;
};

}  // namespace

std::vector<int> greedy_counts(const LayerProblem& problem) {
  const auto num_experts = problem.shares.size();
  std::vector<int> counts(num_experts, 1);
  const auto most = static_cast<int>(holders_of(problem).size());
  // Larger first, then the lower number.
  const auto less = [&](int32_t a, int32_t b) {
    const double p = problem.shares[static_cast<size_t>(a)] / counts[static_cast<size_t>(a)];
    const double q = problem.shares[static_cast<size_t>(b)] / counts[static_cast<size_t>(b)];
    return p != q ? p < q : a > b;
  };
  std::vector<int32_t> heap(num_experts);
  std::iota(heap.begin(), heap.end(), 0);
  std::make_heap(heap.begin(), heap.end(), less);
  for (int extra = problem.num_slots - static_cast<int>(num_experts); extra > 0 && !heap.empty();
       --extra) {
    std::pop_heap(heap.begin(), heap.end(), less);
    const int32_t expert = heap.back();
    heap.pop_back();
    if (++counts[static_cast<size_t>(expert)] == most) continue;
    heap.push_back(expert);
    std::push_heap(heap.begin(), heap.end(), less);
  }
  return counts;
}

LayerLists spread(const LayerState& state) { return Spreader(state).run(); }

void improve(LayerState& state, double least_gain, int64_t max_moves) {
  Improver(state, least_gain, max_moves).run();
}

double bound_us(const LayerProblem& problem) {
  const LayerTerms& terms = *problem.request->terms;
  const std::vector<size_t> holders = holders_of(problem);
  const auto extra = problem.num_slots - static_cast<int>(problem.shares.size());
  const int most = std::min<int>(static_cast<int>(holders.size()), 1 + extra);
  double sum = 0, largest = 0, fixed = kNever, touched_us = kNever, row_us = kNever;
  for (const size_t rank : holders) {
    fixed = std::min(fixed, terms.expert_fixed_us[rank]);
    touched_us = std::min(touched_us, terms.touched_us[rank]);
    row_us = std::min(row_us, terms.row_us[rank]);
  }
  const auto cost = [&](double q) {
    return touched_us * (1 - std::pow(1 - std::min(q, 1.0), terms.num_tokens)) +
           row_us * q * terms.num_tokens;
  };
  for (const double p : problem.shares) {
    sum += cost(p);
    largest = std::max(largest, cost(p / most));
  }
  const double experts = std::max(sum / static_cast<double>(holders.size()), largest);
  double dispatch = 0, combine = 0;
  const auto least_of = [&](const std::vector<double>& us) {
    double least = kNever;
    for (const size_t rank : holders) least = std::min(least, us[rank]);
    return least;
  };
  for (const LinkTerm& link : terms.dispatch_links) {
    dispatch = std::max(dispatch, terms.num_tokens * least_of(link.row_us));
  }
  const double results =
      terms.num_tokens * (terms.adds_results ? 1 : problem.request->shape->top_k);
  for (const LinkTerm& link : terms.combine_links) {
    combine = std::max(combine, results * least_of(link.result_us));
  }
  if (problem.request->ignores_links) dispatch = combine = 0;
  return fixed + experts + dispatch + combine + terms.exchange_us;
}

}  // namespace colibri
