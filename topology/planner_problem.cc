#include "topology/planner_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>

namespace colibri {
namespace {

// What tells one rank from another, whatever their names: its costs and room, then its domain's.
std::vector<double> rank_key(const PlanRequest& request, size_t rank) {
  const LayerTerms& terms = request.terms;
  std::vector<double> key = {
      terms.expert_fixed_us[rank], terms.touched_us[rank], terms.row_us[rank],
      request.capacity_slots.empty() ? 0 : static_cast<double>(request.capacity_slots[rank]),
      rank == 0 ? 0.0 : 1.0};
  for (const auto* links : {&terms.dispatch_links, &terms.combine_links}) {
    std::vector<double> prices;
    for (const LinkTerm& link : *links) {
      for (const double us : {link.row_us[rank], link.result_us[rank]}) {
        if (us > 0) prices.push_back(us);
      }
    }
    std::sort(prices.begin(), prices.end());
    key.push_back(static_cast<double>(prices.size()));
    key.insert(key.end(), prices.begin(), prices.end());
  }
  return key;
}

std::vector<int> canonical_order(const PlanRequest& request) {
  const size_t num_ranks = request.terms.row_us.size();
  std::vector<std::vector<double>> keys;
  std::map<int, std::vector<std::vector<double>>> keys_of_domain;
  const auto& domains = request.domain_of_rank;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    keys.push_back(rank_key(request, rank));
    if (!domains.empty()) keys_of_domain[domains[rank]].push_back(keys.back());
  }
  for (auto& [domain, of_domain] : keys_of_domain) std::sort(of_domain.begin(), of_domain.end());
  std::vector<int> order(num_ranks);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (keys[i] != keys[j]) return keys[i] < keys[j];
    if (domains.empty() || domains[i] == domains[j]) return false;
    const auto &of_i = keys_of_domain[domains[i]], &of_j = keys_of_domain[domains[j]];
    return of_i != of_j ? of_i < of_j : domains[i] < domains[j];
  });
  return order;
}

using Rows = std::vector<std::vector<double>>;  // [links][R]

// Links that are not at most another one on every rank: only they can be the busiest.
Rows undominated(const Rows& links) {
  Rows kept;
  for (size_t i = 0; i < links.size(); ++i) {
    bool is_dominated = false;
    for (size_t j = 0; j < links.size() && !is_dominated; ++j) {
      if (i == j) continue;
      bool at_most = true, equal = true;
      for (size_t rank = 0; rank < links[i].size(); ++rank) {
        at_most = at_most && links[i][rank] <= links[j][rank];
        equal = equal && links[i][rank] == links[j][rank];
      }
      is_dominated = at_most && (!equal || j < i);
    }
    if (!is_dominated) kept.push_back(links[i]);
  }
  std::sort(kept.begin(), kept.end());  // whatever order the links came in
  return kept;
}

// [R, links], ranks in the planner's order.
std::vector<double> by_rank(const std::vector<LinkTerm>& links, std::vector<double> LinkTerm::*us,
                            const std::vector<int>& rank_at, size_t& count) {
  Rows rows;
  for (const LinkTerm& link : links) {
    std::vector<double> row;
    for (const int rank : rank_at) row.push_back((link.*us)[static_cast<size_t>(rank)]);
    rows.push_back(std::move(row));
  }
  rows = undominated(rows);
  count = rows.size();
  std::vector<double> flat;
  for (size_t rank = 0; rank < rank_at.size(); ++rank) {
    for (const auto& row : rows) flat.push_back(row[rank]);
  }
  return flat;
}

// Prices of the ranks against each other; ranks of one price are not.
std::vector<std::pair<size_t, size_t>> far_and_near(const PlannerCosts& costs) {
  std::vector<double> price(costs.num_ranks());
  for (size_t rank = 0; rank < price.size(); ++rank) {
    for (size_t l = 0; l < costs.num_out; ++l) {
      price[rank] += costs.out_us[rank * costs.num_out + l];
    }
    for (size_t l = 0; l < costs.num_back; ++l) {
      price[rank] += costs.back_us[rank * costs.num_back + l];
    }
  }
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t x = 0; x < price.size(); ++x) {
    for (size_t y = 0; y < price.size(); ++y) {
      if (price[x] > price[y]) pairs.emplace_back(x, y);
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& p, const auto& q) {
    return price[p.first] - price[p.second] > price[q.first] - price[q.second];
  });
  return pairs;
}

}  // namespace

PlannerCosts planner_costs(const PlanRequest& request) {
  const LayerTerms& terms = request.terms;
  PlannerCosts costs;
  costs.rank_at = canonical_order(request);
  costs.num_tokens = terms.num_tokens;
  costs.adds_results = terms.adds_results;
  costs.link_weight = request.link_weight;
  costs.hidden_us = request.hidden_us;
  for (const int at : costs.rank_at) {
    const auto rank = static_cast<size_t>(at);
    costs.fixed_us.push_back(terms.expert_fixed_us[rank]);
    costs.touched_us.push_back(terms.touched_us[rank]);
    costs.row_us.push_back(terms.row_us[rank]);
    double rows = 0, results = 0;
    for (const LinkTerm& link : terms.dispatch_links) {
      if (link.crosses_packages || link.crosses_nodes) rows += link.row_us[rank];
    }
    for (const LinkTerm& link : terms.combine_links) {
      if (link.crosses_packages || link.crosses_nodes) results += link.result_us[rank];
    }
    costs.cross_row_us.push_back(rows);
    costs.cross_result_us.push_back(results);
    if (!request.domain_of_rank.empty()) costs.domain.push_back(request.domain_of_rank[rank]);
  }
  costs.out_us = by_rank(terms.dispatch_links, &LinkTerm::row_us, costs.rank_at, costs.num_out);
  costs.back_us = by_rank(terms.combine_links, &LinkTerm::result_us, costs.rank_at, costs.num_back);
  costs.far_and_near = far_and_near(costs);
  return costs;
}

SlotFigures LayerDemand::figures(double load, double num_tokens) {
  RankSums one;
  one.add(load);
  return {load, load < 1 ? -std::expm1(num_tokens * one.log_none) : 1, one.log_none, 1};
}

void LayerDemand::finish(const PlannerCosts& costs) {
  num_tokens = costs.num_tokens;
  rule = RowRule(shares, static_cast<int>(top_k + 0.5));
  alone.clear();
  for (const double share : shares) alone.push_back(figures(share, num_tokens));
  by_share.resize(num_experts());
  std::iota(by_share.begin(), by_share.end(), size_t{0});
  std::sort(by_share.begin(), by_share.end(), [this](size_t a, size_t b) {
    return shares[a] != shares[b] ? shares[a] > shares[b] : a < b;
  });
  bound = layer_bound(costs, *this);
}

SlotFigures LayerDemand::slot(size_t expert, size_t copies) const {
  if (copies == 1) return alone[expert];
  const double part = 1 / static_cast<double>(copies);
  SlotFigures slot = figures(shares[expert] * part, num_tokens);
  slot.part = part;
  return slot;
}

std::vector<SlotFigures> LayerDemand::slots_in(const RankLists& lists) const {
  std::vector<size_t> copies(num_experts(), 0);
  for (const auto& list : lists) {
    for (const int32_t expert : list) ++copies[static_cast<size_t>(expert)];
  }
  std::vector<SlotFigures> slots = alone;
  for (size_t e = 0; e < slots.size(); ++e) {
    if (copies[e] > 1) slots[e] = slot(e, copies[e]);
  }
  return slots;
}

std::vector<RankTotals> LayerDemand::totals(const RankLists& lists,
                                            const std::vector<SlotFigures>& slot) const {
  std::vector<RankTotals> of_ranks(lists.size());
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    RankTotals& of_rank = of_ranks[rank];
    const std::vector<int32_t>& list = lists[rank];
    for (size_t i = 0; i < list.size(); ++i) {
      const auto a = static_cast<size_t>(list[i]);
      of_rank.add(slot[a]);
      if (pairs == nullptr) continue;
      const float* with_a = pairs->row(a);
      double sum = 0;
      for (size_t j = 0; j < i; ++j) {
        const auto b = static_cast<size_t>(list[j]);
        sum += with_a[b] * slot[b].part;
      }
      of_rank.together += sum * slot[a].part;
    }
  }
  return of_ranks;
}

double LayerDemand::row_chance(const RankTotals& totals) const {
  RankSums sums;
  sums.share = std::max(0.0, totals.load);
  sums.log_none = std::min(0.0, totals.log_none);
  if (counts_pairs()) {
    sums.pairs = std::max(0.0, totals.together);
    const double products = (sums.share * sums.share - totals.squares) / 2;
    sums.pairs_by_chance = std::max(0.0, products * (top_k - 1) / top_k);
  }
  return rule.chance(sums);
}

std::vector<int> copies_for(const LayerDemand& demand, const PlannerCosts& costs, int num_slots,
                            double enough_us) {
  const size_t num_experts = demand.num_experts();
  const auto usable = [](int room) { return room > 0; };
  const auto most = static_cast<int>(std::count_if(demand.room.begin(), demand.room.end(), usable));
  double fixed = 0, touched = 0, row = 0;
  for (size_t rank = 0; rank < costs.num_ranks(); ++rank) {
    if (demand.room[rank] == 0) continue;
    fixed += costs.fixed_us[rank] / most;
    touched += costs.touched_us[rank] / most;
    row += costs.row_us[rank] * costs.num_tokens / most;
  }
  std::vector<int> copies(num_experts, 1);
  using Entry = std::pair<double, size_t>;
  const auto less = [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  std::vector<Entry> shares;
  shares.reserve(num_experts);
  for (size_t e = 0; e < num_experts; ++e) shares.emplace_back(demand.shares[e], e);
  std::priority_queue<Entry, std::vector<Entry>, decltype(less)> by_load(less, std::move(shares));
  int left = num_slots - static_cast<int>(num_experts);
  while (left > 0 && !by_load.empty()) {
    const auto [load, expert] = by_load.top();
    by_load.pop();
    if (enough_us > 0) {
      const double each = demand.slot(expert, static_cast<size_t>(copies[expert])).touched;
      if (fixed + touched * each + row * load <= enough_us) break;
    }
    if (copies[expert] >= most || load <= 0) continue;
    ++copies[expert];
    --left;
    by_load.emplace(demand.shares[expert] / copies[expert], expert);
  }
  return copies;
}

LayerFigures exact_figures(const PlannerCosts& costs, const LayerDemand& demand,
                           const RankLists& lists) {
  LayerFigures figures;
  for (const RankTotals& totals : demand.totals(lists, demand.slots_in(lists))) {
    figures.pairs.push_back(costs.num_tokens * totals.load);
    figures.touched.push_back(totals.touched);
    figures.rows.push_back(costs.num_tokens * demand.row_chance(totals));
  }
  return figures;
}

double exact_us(const PlannerCosts& costs, const LayerFigures& figures) {
  double slowest = costs.hidden_us, out = 0, back = 0;
  for (size_t r = 0; r < costs.num_ranks(); ++r) {
    slowest = std::max(slowest,
                       costs.expert_us(r, figures.touched[r], figures.pairs[r] / costs.num_tokens));
  }
  const auto& results = costs.adds_results ? figures.rows : figures.pairs;
  for (size_t l = 0; l < costs.num_out; ++l) {
    double us = 0;
    for (size_t r = 0; r < costs.num_ranks(); ++r) {
      us += costs.out_us[r * costs.num_out + l] * figures.rows[r];
    }
    out = std::max(out, us);
  }
  for (size_t l = 0; l < costs.num_back; ++l) {
    double us = 0;
    for (size_t r = 0; r < costs.num_ranks(); ++r) {
      us += costs.back_us[r * costs.num_back + l] * results[r];
    }
    back = std::max(back, us);
  }
  return slowest + costs.link_weight * (out + back);
}

}  // namespace colibri
