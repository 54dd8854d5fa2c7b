#include "tests/topology/planner_scores.h"

#include <cmath>

#include "tests/topology/planner_cases.h"
#include "topology/cluster_file.h"
#include "topology/layer_figures.h"
#include "topology/load_file.h"
#include "topology/rank_map.h"

namespace colibri {
namespace {

constexpr int kTokens = 32768, kTopK = 8;

Plan planned(const ModelShape& shape, const ExpertLoads& loads, const LayerTerms& terms,
             int slots_each, double link_weight) {
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots.assign(terms.row_us.size(), slots_each);
  request.link_weight = link_weight;
  request.effort = 20'000;
  return plan_placement(request);
}

Placement placement_of(const ModelShape& shape, RankExperts lists) {
  for (auto& list : lists) {  // a rank computes an expert once, whatever its slots
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return Placement(shape, static_cast<int>(lists.size()), {lists});
}

double cross_us(const LayerTerms& terms, const LayerFigures& figures) {
  double us = 0;
  for (size_t rank = 0; rank < figures.rows.size(); ++rank) {
    for (const LinkTerm& link : terms.dispatch_links) {
      if (link.crosses_packages || link.crosses_nodes) us += link.row_us[rank] * figures.rows[rank];
    }
    for (const LinkTerm& link : terms.combine_links) {
      if (link.crosses_packages || link.crosses_nodes) {
        us += link.result_us[rank] * figures.pairs[rank];
      }
    }
  }
  return us;
}

// No rank has more tokens than `theirs` puts on its busiest, and fewest bytes cross.
Placement as_balanced(const Placement& theirs, const ModelShape& shape, const ExpertLoads& loads,
                      LayerTerms terms, int slots_each) {
  terms.expert_fixed_us.assign(terms.row_us.size(), 0);
  terms.touched_us.assign(terms.row_us.size(), 0);
  terms.row_us.assign(terms.row_us.size(), 1000);
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots.assign(terms.row_us.size(), slots_each);
  request.hidden_us = planned_layer_time(request, theirs, 0).expert_us;
  request.effort = 20'000;
  return plan_placement(request).placement;
}

}  // namespace

std::string EplbCase::name() const {
  std::string name = "E" + std::to_string(num_experts) + ", " + std::to_string(num_gpus) +
                     " GPUs, P=" + std::to_string(num_slots);
  return num_nodes > 1 ? name + " by node" : name;
}

std::vector<EplbCase> eplb_cases() {
  return {{256, 8, 256},  {256, 8, 264},        {128, 8, 128},  {128, 8, 136},  {256, 32, 256},
          {256, 32, 288}, {256, 32, 288, 4, 8}, {256, 72, 288}, {256, 144, 288}};
}

BalanceScore balance_score(const EplbCase& c, double s, Seeds seeds) {
  const ModelShape shape = plan_shape(c.num_experts, 1);
  const LayerTerms terms = balance_terms(c.num_gpus);
  const int each = c.num_slots / c.num_gpus;
  const EplbSizes sizes{c.num_slots, c.num_gpus, c.num_nodes, c.num_groups};
  const double n = seeds.count;
  BalanceScore score;
  score.worst_difference = 1;
  double squares = 0;
  for (int i = 0; i < seeds.count; ++i) {
    const uint64_t seed = seeds.first + static_cast<uint64_t>(i);
    const std::vector<double> weights = zipf_weights(c.num_experts, s, seed);
    const Plan plan = planned(shape, exact_loads(shape, weights), terms, each, 1);
    const RankExperts ours = lists_of(plan.placement, 0), theirs = eplb(weights, sizes);
    const Placement parts = contiguous_placement(
        shape, {.num_ranks = c.num_gpus, .coordinator_experts = c.num_experts / c.num_gpus});
    score.contiguous += balance_of(lists_of(parts, 0), weights) / n;
    const double a = balance_of(ours, weights), b = balance_of(theirs, weights);
    score.balance.ours += a / n;
    score.balance.theirs += b / n;
    score.worst_difference = std::min(score.worst_difference, a - b);
    score.gap += plan.gap() / n;
    score.duplicates.ours += duplicates_in(ours) / n;
    score.duplicates.theirs += duplicates_in(theirs) / n;
    ExpertLoads loads = empty_loads(shape, false);
    loads.phases[1][0] = sampled_layer(weights, kTopK, kTokens, seed + 1000, false);
    const LayerLoads held = sampled_layer(weights, kTopK, kTokens, seed + 2000, false);
    const Plan sampled = planned(shape, loads, terms, each, 1);
    const double p = balance_of(lists_of(sampled.placement, 0), held.tokens);
    const double q = balance_of(eplb(loads.phases[1][0].tokens, sizes), held.tokens);
    score.held_out.ours += p / n;
    score.held_out.theirs += q / n;
    squares += (p - q) * (p - q) / n;
  }
  const double mean = score.held_out.ours - score.held_out.theirs;
  score.held_out_error = std::sqrt(std::max(0.0, squares - mean * mean) / std::max(1.0, n - 1));
  return score;
}

std::vector<LinkCase> link_cases() {
  constexpr char kTwoNodes[] = R"(
      colibri_machine = 1
      name = "2x8xh100-400g"
      [[node]]
      count = 2
      cpu = "cpu-server"
      packages = 2
      cores = 48
      memory_gb = 1024
      package_link = "upi-spr"
      gpu = "h100"
      gpus = 8
      gpus_per_switch = 2
      pcie = "pcie5-x16"
      nvlink = "nvlink4"
      nvlink_form = "switch"
      nics = 8
      nic = "ib-400g")";
  return {{find_cluster("8xa100-pcie"), 1, 256},
          {parse_cluster(kTwoNodes, "two nodes"), 2, 256},
          {find_cluster("4x8xh200-400g"), 4, 256}};
}

LinkScore link_score(const LinkCase& c, double s, Seeds seeds) {
  ModelShape shape = plan_shape(256, kTopK);
  shape.hidden_size = 7168;
  shape.expert_width = 2048;
  shape.expert_bytes = shape.expert_macs();  // one byte a weight
  const Cluster& cluster = c.cluster;
  const int num_ranks = static_cast<int>(cluster.parts_of(PartKind::kGpu).size());
  const RankMap ranks(cluster, default_rank_parts(cluster, num_ranks, false), {0});
  const LayerTerms terms = layer_terms(
      shape, ranks, {.size = decode_size(c.batch, 2048), .coordinator_holds_experts = true});
  const int each = 256 / num_ranks + 1;
  const double n = seeds.count;
  LinkScore score;
  for (int i = 0; i < seeds.count; ++i) {
    const uint64_t seed = seeds.first + static_cast<uint64_t>(i);
    ExpertLoads loads = empty_loads(shape, true);
    LayerLoads& layer = loads.phases[1][0];
    layer = sampled_layer(zipf_weights(256, s, seed), kTopK, kTokens, seed + 3000, true);
    const std::vector<double> shares = expert_shares(&loads, shape, 0);
    const std::vector<double> pairs = pair_shares(&loads, 0);
    const auto figures = [&](const Placement& placement) {
      return layer_figures(placement, 0, shares, terms.num_tokens, pairs);
    };
    const EplbSizes sizes{each * num_ranks, num_ranks, c.num_nodes, 8};
    const Placement theirs = placement_of(shape, eplb(layer.tokens, sizes));
    const Placement balanced = as_balanced(theirs, shape, loads, terms, each);
    const Placement fast = planned(shape, loads, terms, each, 1).placement;
    const Placement linkless = planned(shape, loads, terms, each, 0).placement;
    score.balance.ours += balancedness(figures(balanced), num_ranks) / n;
    score.balance.theirs += balancedness(figures(theirs), num_ranks) / n;
    score.cross_us.ours += cross_us(terms, figures(balanced)) / n;
    score.cross_us.theirs += cross_us(terms, figures(theirs)) / n;
    score.predicted_us.ours += layer_time(terms, figures(fast)).total_us() / n;
    score.predicted_us.theirs += layer_time(terms, figures(theirs)).total_us() / n;
    score.planned_cross_us += cross_us(terms, figures(fast)) / n;
    score.planned_balance += balancedness(figures(fast), num_ranks) / n;
    score.without_links_us += layer_time(terms, figures(linkless)).total_us() / n;
  }
  return score;
}

ExpertLoads read_demo_loads(const std::string& path) {
  ModelShape shape = plan_shape(kDemoExperts, 4, kDemoLayers);
  shape.fingerprint = "341a9e3f82074cabd8e85d8863c2c272";
  return read_loads(path, shape);
}

RecordedScore recorded_score(const ExpertLoads& loads, const ExpertLoads& held, int num_ranks,
                             int spare_slots) {
  ModelShape shape = plan_shape(loads.num_experts, loads.top_k);
  shape.fingerprint = loads.fingerprint;
  shape.hidden_size = 192;
  shape.expert_width = 128;
  shape.expert_bytes = 2 * shape.expert_macs();
  const Cluster cluster = find_cluster("two-socket-cpu");
  const RankMap ranks(cluster, default_rank_parts(cluster, num_ranks, true), {0});
  const LayerTerms links =
      layer_terms(shape, ranks, {.size = decode_size(64, 256), .coordinator_holds_experts = true});
  const LayerTerms balance = balance_terms(num_ranks);
  const int each = loads.num_experts / num_ranks + spare_slots;
  const double n = loads.num_layers;
  RecordedScore score;
  for (int layer = 0; layer < loads.num_layers; ++layer) {
    const auto of_layer = [&](const ExpertLoads& all) {
      ExpertLoads one = all;
      one.num_layers = 1;
      for (auto& layers : one.phases) layers = {layers[static_cast<size_t>(layer)]};
      return one;
    };
    const ExpertLoads by = of_layer(loads), scored = of_layer(held);
    const std::vector<double> shares = expert_shares(&by, shape, 0);
    const std::vector<double> held_shares = expert_shares(&scored, shape, 0);
    const RankExperts theirs = eplb(shares, {each * num_ranks, num_ranks, 1, 1});
    const RankExperts ours = lists_of(planned(shape, by, balance, each, 1).placement, 0);
    score.balance.ours += balance_of(ours, shares) / n;
    score.balance.theirs += balance_of(theirs, shares) / n;
    score.held_out.ours += balance_of(ours, held_shares) / n;
    score.held_out.theirs += balance_of(theirs, held_shares) / n;
    score.duplicates.ours += duplicates_in(ours) / n;
    score.duplicates.theirs += duplicates_in(theirs) / n;
    const auto crossing = [&](const Placement& placement) {
      return cross_us(links, layer_figures(placement, 0, held_shares, links.num_tokens,
                                           pair_shares(&scored, 0)));
    };
    const Placement placed = placement_of(shape, theirs);
    score.cross_us.ours += crossing(as_balanced(placed, shape, by, links, each)) / n;
    score.cross_us.theirs += crossing(placed) / n;
  }
  return score;
}

}  // namespace colibri
