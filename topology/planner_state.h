// A placement of one layer under change, with what it costs at any time. Internal to
// topology/planner*.cc.
#pragma once

#include <span>
#include <vector>

#include "topology/planner_problem.h"

namespace colibri {

// What one rank gains or loses by a change that is only tried.
struct RankShift {
  size_t rank = 0;
  double load = 0;      // expected slots that a token picks
  double touched = 0;   // expected slots with at least one token
  double log_none = 0;  // log of the chance that independent choices pick none
  double together = 0;  // counted chance of pairs of slots of which a token picks both
};

class PlannerState {
 public:
  // Borrows both. Empty at first.
  PlannerState(const PlannerCosts& costs, const LayerDemand& demand);

  // Only lists() and objective() can be asked for then.
  void set(const RankLists& lists);
  // For changes and tries, which want it after set(). Cost: O(slots E) where pairs are counted.
  void prepare();

  // ---- changes, each O(R links), with counted pairs O(E) more
  void move(size_t expert, size_t from, size_t to);
  void swap(size_t a, size_t x, size_t b, size_t y);  // a on x, b on y
  void add_copy(size_t expert, size_t rank);
  void drop_copy(size_t expert, size_t rank);

  // ---- as it is
  const RankLists& lists() const { return lists_; }
  bool is_on(size_t expert, size_t rank) const { return is_on_[expert * num_ranks_ + rank] != 0; }
  // Ranks with a slot of the expert; until the next change.
  std::span<const uint32_t> holders(size_t expert) const {
    return {&holders_[expert * num_ranks_], num_holders_[expert]};
  }
  int num_slots() const { return num_slots_; }
  int room_left(size_t rank) const {
    return demand_.room[rank] - static_cast<int>(lists_[rank].size());
  }
  double slot_load(size_t expert) const { return slot_[expert].load; }
  double expert_us(size_t rank) const { return time_[rank]; }
  size_t slowest() const { return order_[0]; }
  // What search makes small: time, and far behind it bytes between sockets and nodes and the spread
  // of the ranks' times.
  double objective() const { return objective_; }
  // Copies of an expert in a domain where another lies already.
  int collisions(size_t expert) const;

  // ---- the objective after a change, without it; rows by their slope at the present
  double tried_move(size_t expert, size_t from, size_t to) const;
  double tried_swap(size_t a, size_t x, size_t b, size_t y) const;
  // Figures of each slot were there one more or one less.
  SlotFigures resized(size_t expert, bool comes) const;
  // A copy comes to `rank` or leaves it; each slot is `after` then.
  double tried_copy(size_t expert, size_t rank, bool comes, const SlotFigures& after) const;

 private:
  double with(size_t expert, size_t rank) const;
  void set_copies(size_t expert, size_t copies);
  void share_with(size_t expert, size_t rank, double part);
  void put(size_t expert, size_t rank);
  void take(size_t expert, size_t rank);
  void count_rank(size_t rank);
  void count_slopes(size_t rank);
  void sort_ranks();
  void sum_up();
  double summed(double slowest, double squares, double cross) const;
  double links_us(std::span<const RankShift> shifts, double& cross) const;
  double tried(std::span<const RankShift> shifts) const;
  double tried_two(const RankShift& x, const RankShift& y) const;
  double more_rows(const RankShift& shift) const;

  const PlannerCosts& costs_;
  const LayerDemand& demand_;
  size_t num_ranks_, num_experts_;
  double spread_weight_ = 0;  // of squares_
  bool uses_pairs_ = false, has_links_ = false;
  RankLists lists_;
  int num_slots_ = 0;
  std::vector<SlotFigures> slot_;    // [E] of each copy as they are now
  std::vector<RankTotals> totals_;   // [R]
  std::vector<double> time_, rows_;  // [R] rows a token
  std::vector<double> out_, back_;   // [links]
  std::vector<size_t> order_;        // ranks, the slowest first
  double squares_ = 0, cross_ = 0, objective_ = 0;

  // ---- what only changes and tries need
  std::vector<uint8_t> is_on_;         // [E, R]
  std::vector<uint32_t> holders_;      // [E, R], of them the first num_holders_[e]
  std::vector<uint32_t> num_holders_;  // [E]
  std::vector<float> with_;            // [R, E] pairs of an expert with slots of the rank
  std::vector<double> by_load_, by_log_none_, by_together_;  // [R] slopes of rows_
};

}  // namespace colibri
