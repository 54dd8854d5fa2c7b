// Lower bounds on what one layer can take: each part by itself, so that their sum is one too.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "topology/planner_problem.h"

namespace colibri {
namespace {

// The `count` largest together.
double sum_of_most(const std::vector<double>& descending, int count) {
  const auto end = descending.begin() +
                   std::min<std::ptrdiff_t>(count, static_cast<std::ptrdiff_t>(descending.size()));
  return std::accumulate(descending.begin(), end, 0.0);
}

// What a rank can be asked for at most.
struct RankMost {
  double load = 0, touched = 0;
};

struct Totals {
  std::vector<double> shares;   // descending
  std::vector<double> touched;  // of single slots, descending
  double load = 0, all_touched = 0;
  std::vector<RankMost> most;  // [R]
};

Totals totals_of(const LayerDemand& demand) {
  Totals totals;
  totals.shares = demand.shares;
  std::sort(totals.shares.begin(), totals.shares.end(), std::greater<>());
  for (const SlotFigures& slot : demand.alone) {
    totals.touched.push_back(slot.touched);
    totals.load += slot.load;
    totals.all_touched += slot.touched;
  }
  std::sort(totals.touched.begin(), totals.touched.end(), std::greater<>());
  for (const int room : demand.room) {
    totals.most.push_back({sum_of_most(totals.shares, room), sum_of_most(totals.touched, room)});
  }
  return totals;
}

// Whether ranks that take `us` each can do all of it, were experts divisible: of all ways to share
// out the tokens, the one that leaves most time for touching experts.
bool can_share_out(const PlannerCosts& costs, const Totals& totals, double us) {
  struct Offer {
    double price = 0, load = 0;  // touched experts given up for each token's slot
  };
  std::vector<Offer> offers;
  double touched = 0;
  for (size_t rank = 0; rank < costs.num_ranks(); ++rank) {
    const double budget = us - costs.fixed_us[rank];
    const RankMost& most = totals.most[rank];
    if (budget <= 0 || most.load <= 0) continue;
    const double per_load = costs.row_us[rank] * costs.num_tokens, each = costs.touched_us[rank];
    const double most_touched = each > 0 ? std::min(most.touched, budget / each) : most.touched;
    touched += most_touched;
    if (per_load <= 0) {
      offers.push_back({0, most.load});
      continue;
    }
    const double free_load = std::min(most.load, (budget - each * most_touched) / per_load);
    const double all_load = std::min(most.load, budget / per_load);
    offers.push_back({0, free_load});
    if (each > 0) offers.push_back({per_load / each, all_load - free_load});
  }
  std::sort(offers.begin(), offers.end(),
            [](const Offer& a, const Offer& b) { return a.price < b.price; });
  double left = totals.load;
  for (const Offer& offer : offers) {
    const double taken = std::min(left, offer.load);
    left -= taken;
    touched -= taken * offer.price;
  }
  const double slack = 1e-9;
  return left <= slack * totals.load && touched >= totals.all_touched * (1 - slack);
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
    const int until = std::min(next + demand.room[rank], static_cast<int>(totals.shares.size()));
    us += price[rank] * (sum_of_most(totals.shares, until) - sum_of_most(totals.shares, next));
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
  const Totals totals = totals_of(demand);
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
