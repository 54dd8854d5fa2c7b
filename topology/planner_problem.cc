#include "topology/planner_problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>

#include "base/error.h"

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
  return costs;
}

SlotFigures LayerDemand::figures(double load, double num_tokens) {
  RankSums one;
  one.add(load);
  return {load, load < 1 ? -std::expm1(num_tokens * one.log_none) : 1, one.log_none};
}

void LayerDemand::finish(const PlannerCosts& costs) {
  num_tokens = costs.num_tokens;
  const size_t experts = num_experts();
  alone.clear();
  for (const double share : shares) alone.push_back(figures(share, num_tokens));
  if (counts_pairs()) {
    pair_table.assign(experts * experts, 0);
    for (size_t b = 1; b < experts; ++b) {
      for (size_t a = 0; a < b; ++a) {
        pair_table[a * experts + b] = pair_table[b * experts + a] = pair_shares[pair_index(a, b)];
      }
    }
  }
  bound = layer_bound(costs, *this);
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
  std::priority_queue<Entry, std::vector<Entry>, decltype(less)> by_load(less);
  for (size_t e = 0; e < num_experts; ++e) by_load.emplace(demand.shares[e], e);
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

}  // namespace colibri
