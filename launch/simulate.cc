#include "launch/simulate.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "launch/plan_input.h"
#include "launch/simulate_report.h"
#include "launch/standard_out.h"
#include "topology/placement_file.h"
#include "topology/planner.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

using Shares = std::vector<std::vector<double>>;

// What is asked for besides the machine.
struct PointChoice {
  int ranks = 0;
  int64_t batch = 0;
  std::string coordinators;
};

class Simulator {
 public:
  explicit Simulator(const RunConfig& config)
      : config_(config),
        shape_(shape_of(config.common,
                        runs_on_gpus(machine_named(config.simulate.machines[0]), config.common))),
        shares_(shares(config.simulate.routing)) {}

  Shares shares(const std::string& routing) const { return shares_named(routing, shape_); }

  SimulatedPoint point(const Cluster& cluster, const PointChoice& choice,
                       const Shares* shares = nullptr) const {
    const RankMap map =
        ranks_on(cluster, choice.ranks, runs_on_gpus(cluster, config_.common), choice.coordinators);
    const int64_t batch =
        config_.simulate.is_batch_a_rank ? choice.batch * map.num_ranks() : choice.batch;
    const Shares& used = shares == nullptr ? shares_ : *shares;
    const Placement placement = placement_on(map, static_cast<double>(batch), used);
    const double each = static_cast<double>(batch) / static_cast<double>(map.coordinators().size());
    const auto context = static_cast<double>(config_.simulate.context);
    const SimulatorInput input{.shape = &shape_,
                               .ranks = &map,
                               .placement = &placement,
                               .shares = used,
                               .size = decode_size(each, context),
                               .adds_results = config_.common.combine == "reduced"};
    SimulatedPoint point{.machine = cluster.name,
                         .ranks = map.num_ranks(),
                         .batch = batch,
                         .coordinators = choice.coordinators,
                         .step = simulate_step(input)};
    point.tokens_per_s = point.step.tokens_per_s(input);
    point.gap = largest_gap(input, each * (context + 1));
    return point;
  }

 private:
  // Experts lie on the ranks that do not coordinate, or on all where all do; or as planned. Others
  // are made as the program makes them.
  Placement placement_on(const RankMap& map, double batch, const Shares& shares) const {
    const PlacementChoice choice = parse_placement_option(config_.common.placement);
    switch (choice.kind) {
      case PlacementKind::kContiguous:
        return spread_placement(shape_, map, false);
      case PlacementKind::kRoundRobin:
        return spread_placement(shape_, map, true);
      case PlacementKind::kAuto:
        return planned(map, batch, shares);
      case PlacementKind::kRandom:
      case PlacementKind::kFile:
        break;
    }
    return make_placement(choice, shape_, {.num_ranks = map.num_ranks()});
  }

  // Into what memory there is; where it does not suffice, as if it did: the point says so.
  Placement planned(const RankMap& map, double batch, const Shares& shares) const {
    ExpertLoads loads = empty_loads(shape_, false);
    for (size_t layer = 0; layer < shares.size(); ++layer) {
      if (shares[layer].empty()) continue;
      LayerLoads& of_layer = loads.phases[static_cast<size_t>(LoadPhase::kDecode)][layer];
      of_layer.num_tokens = 1;
      of_layer.tokens = shares[layer];
    }
    const auto context = static_cast<double>(config_.simulate.context);
    const double each = batch / static_cast<double>(map.coordinators().size());
    const LayerTerms terms = layer_terms(shape_, map, {.size = decode_size(each, context)});
    PlanRequest request{shape_, terms, &loads};
    request.capacity_slots = capacity_slots(map, batch * (context + 1));
    return plan_placement(request).placement;
  }

  std::vector<int64_t> capacity_slots(const RankMap& map, double kv_positions) const {
    const double each = kv_positions / static_cast<double>(map.coordinators().size());
    const SimulatorInput input{.shape = &shape_, .ranks = &map, .size = {}};
    const int64_t all = int64_t{shape_.num_experts} * shape_.num_moe_layers();
    int64_t sum = 0;
    std::vector<int64_t> slots;
    for (const MemoryGap& gap : memory_gaps(input, each)) {
      const double room = -gap.missing() / static_cast<double>(shape_.expert_bytes);
      slots.push_back(std::clamp(static_cast<int64_t>(room), int64_t{0}, all));
      sum += slots.back();
    }
    if (sum < all) slots.assign(slots.size(), all);
    return slots;
  }

  const RunConfig& config_;
  ModelShape shape_;
  Shares shares_;
};

std::vector<SimulatedPoint> sweep(const Simulator& simulator, const SimulateOptions& o) {
  std::vector<SimulatedPoint> points;
  for (const std::string& machine : o.machines) {
    const Cluster cluster = machine_named(machine);
    for (const std::string& coordinators : o.coordinators) {
      for (const int ranks : o.ranks) {
        for (const int64_t batch : o.batches) {
          points.push_back(simulator.point(cluster, {ranks, batch, coordinators}));
        }
      }
    }
  }
  return points;
}

// What twice as fast a link of each kind, and more skew, would change.
std::vector<WhatIf> what_if(const Simulator& simulator, const SimulateOptions& o) {
  const Cluster cluster = machine_named(o.machines[0]);
  const PointChoice choice{o.ranks[0], o.batches[0], o.coordinators[0]};
  std::vector<WhatIf> changes;
  std::set<std::string> kinds;
  for (const ClusterLink& link : cluster.links) kinds.insert(link.kind);
  for (const std::string& kind : kinds) {
    Cluster faster = cluster;
    for (ClusterLink& link : faster.links) {
      if (link.kind == kind) link.gbps *= 2;
    }
    changes.push_back({kind + " twice as fast", simulator.point(faster, choice).step.step_us});
  }
  for (const char* skew : {"zipf:0.6", "zipf:0.9", "zipf:1.2"}) {
    const Shares shares = simulator.shares(skew);
    changes.push_back({std::string("experts chosen by ") + skew,
                       simulator.point(cluster, choice, &shares).step.step_us});
  }
  return changes;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, "--svg ", path, ": cannot be written");
}

}  // namespace

int simulate(const RunConfig& config) {
  const SimulateOptions& o = config.simulate;
  const Simulator simulator(config);
  const std::vector<SimulatedPoint> points = sweep(simulator, o);
  const SimulatedFacts facts{
      .model = config.common.shape.empty() ? config.common.model : config.common.shape,
      .weights = config.common.weights + "/" + config.common.dense_weights,
      .routing = o.routing,
      .context = o.context};
  std::vector<WhatIf> changes;
  if (points.size() == 1 && o.format != "csv") changes = what_if(simulator, o);
  if (o.format == "csv") {
    write_out(simulated_csv(points));
  } else if (o.format == "json") {
    write_out(simulated_json(facts, points, changes));
  } else {
    write_out(points.size() == 1 ? point_text(facts, points[0], changes)
                                 : simulated_table(facts, points));
  }
  if (!o.svg.empty()) write_file(o.svg, simulated_svg(facts, points));
  return 0;
}

}  // namespace colibri
