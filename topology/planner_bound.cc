// Lower bounds on what one layer can take: each part by itself, so that their sum is one too.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "topology/planner_problem.h"

namespace colibri {
namespace {

// What a rank can be asked for at most.
struct RankMost {
  double load = 0, touched = 0;
};

// Sums over the busiest experts.
class Busiest {
 public:
  // Of single slots; the most chosen have most of each.
  Busiest(const LayerDemand& demand, double SlotFigures::*figure) {
    up_to_.reserve(demand.num_experts() + 1);
    for (const size_t e : demand.by_share) {
      up_to_.push_back(up_to_.back() + demand.alone[e].*figure);
    }
  }
  // Of the `count` largest together; of all where there are fewer.
  double sum(int count) const {
    return up_to_[std::min(static_cast<size_t>(count), up_to_.size() - 1)];
  }
  double all() const { return up_to_.back(); }

 private:
  std::vector<double> up_to_ = {0};  // [E + 1]
};

struct Totals {
  Busiest shares, touched;
  std::vector<RankMost> most;  // [R]
  // Ranks by the touched experts that each token's slot costs there.
  struct Offer {
    size_t rank = 0;
    double price = 0;
  };
  std::vector<Offer> offers;
};

Totals totals_of(const PlannerCosts& costs, const LayerDemand& demand) {
  Totals totals{
      Busiest(demand, &SlotFigures::load), Busiest(demand, &SlotFigures::touched), {}, {}};
  for (size_t rank = 0; rank < demand.room.size(); ++rank) {
    const int room = demand.room[rank];
    totals.most.push_back({totals.shares.sum(room), totals.touched.sum(room)});
    const double each = costs.touched_us[rank];
    if (each > 0) totals.offers.push_back({rank, costs.row_us[rank] * costs.num_tokens / each});
  }
  std::stable_sort(totals.offers.begin(), totals.offers.end(),
                   [](const auto& a, const auto& b) { return a.price < b.price; });
  return totals;
}

// Whether ranks that take `us` each can do all of it, were experts divisible: of all ways to share
// out the tokens, the one that leaves most time for touching experts.
bool can_share_out(const PlannerCosts& costs, const Totals& totals, double us) {
  double touched = 0, left = totals.shares.all();
  // What tokens take that the touched experts leave time for, and tokens at their cost.
  const auto loads_of = [&](size_t rank) {
    const double budget = us - costs.fixed_us[rank];
    const RankMost& most = totals.most[rank];
    if (budget <= 0 || most.load <= 0) return std::pair{0.0, 0.0};
    const double per_load = costs.row_us[rank] * costs.num_tokens, each = costs.touched_us[rank];
    const double most_touched = each > 0 ? std::min(most.touched, budget / each) : most.touched;
    touched += most_touched;
    if (per_load <= 0) return std::pair{most.load, 0.0};
    const double free_load = std::min(most.load, (budget - each * most_touched) / per_load);
    return std::pair{free_load, std::min(most.load, budget / per_load) - free_load};
  };
  std::vector<double> more(costs.num_ranks());
  for (size_t rank = 0; rank < more.size(); ++rank) {
    const auto [free_load, at_a_price] = loads_of(rank);
    left -= std::min(left, free_load);
    more[rank] = at_a_price;
  }
  for (const Totals::Offer& offer : totals.offers) {
    const double taken = std::min(left, more[offer.rank]);
    left -= taken;
    touched -= taken * offer.price;
  }
  const double slack = 1e-9;
  return left <= slack * totals.shares.all() && touched >= totals.touched.all() * (1 - slack);
}

double shared_out_us(const PlannerCosts& costs, const Totals& totals) {
  double low = 0, high = 1;
  while (!can_share_out(costs, totals, high) && high < 1e15) high *= 2;
  for (int i = 0; i < 60 && high - low > 1e-7 * high; ++i) {
    const double middle = (low + high) / 2;
    (can_share_out(costs, totals, middle) ? high : low) = middle;
  }
  return low;
}

// Some rank has a slot of every expert: the cheapest, with copies as good as the slots allow.
double single_slot_us(const PlannerCosts& costs, const LayerDemand& demand) {
  const std::vector<int> copies = copies_for(demand, costs, demand.most_slots, 0);
  double most = 0;
  for (size_t e = 0; e < copies.size(); ++e) most = std::max(most, demand.shares[e] / copies[e]);
  const double touched = LayerDemand::figures(most, costs.num_tokens).touched;
  double least = 1e300;
  for (size_t rank = 0; rank < costs.num_ranks(); ++rank) {
    if (demand.room[rank] > 0) least = std::min(least, costs.expert_us(rank, touched, most));
  }
  return least;
}

// A link's time were the hottest experts where it costs least: price[r] for each slot that a token
// picks on rank r.
double least_link_us(const LayerDemand& demand, const Totals& totals,
                     const std::vector<double>& price) {
  std::vector<size_t> order(price.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return price[a] < price[b]; });
  double us = 0;
  int next = 0;
  for (const size_t rank : order) {
    const int until = std::min(next + demand.room[rank], static_cast<int>(demand.num_experts()));
    us += price[rank] * (totals.shares.sum(until) - totals.shares.sum(next));
    next = until;
  }
  return us;
}

// Rows of a rank for each slot that is picked there, at the least. RowRule gives no fewer than
// independent choices, 1 - exp(-load), a concave curve that lies above its chord to the most load
// the rank can have; with counted pairs no fewer than a row for K slots.
double rows_a_load(const LayerDemand& demand, const RankMost& most) {
  if (most.load <= 0) return 0;
  if (demand.counts_pairs()) return std::min(1.0, most.load) / (most.load * demand.top_k);
  return -std::expm1(-most.load) / most.load;
}

}  // namespace

LayerBound layer_bound(const PlannerCosts& costs, const LayerDemand& demand) {
  const Totals totals = totals_of(costs, demand);
  LayerBound bound;
  bound.expert_us = std::max(shared_out_us(costs, totals), single_slot_us(costs, demand));
  const size_t num_ranks = costs.num_ranks();
  std::vector<double> price(num_ranks);
  const auto price_with = [&](const std::vector<double>& us, size_t count, size_t link, bool rows) {
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      price[rank] = us[rank * count + link] * costs.num_tokens *
                    (rows ? rows_a_load(demand, totals.most[rank]) : 1);
    }
    return least_link_us(demand, totals, price);
  };
  for (size_t l = 0; l < costs.num_out; ++l) {
    bound.out_us = std::max(bound.out_us, price_with(costs.out_us, costs.num_out, l, true));
  }
  for (size_t l = 0; l < costs.num_back; ++l) {
    bound.back_us =
        std::max(bound.back_us, price_with(costs.back_us, costs.num_back, l, costs.adds_results));
  }
  return bound;
}

}  // namespace colibri
