#include "launch/simulate.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "launch/plan_input.h"
#include "launch/standard_out.h"
#include "topology/placement_file.h"
#include "topology/simulator.h"
#include "topology/svg.h"

namespace colibri {
namespace {

struct Point {
  std::string machine;
  int ranks = 0;
  int64_t batch = 0;
  std::string coordinators;
  SimulatedStep step;
  double tokens_per_s = 0;
  MemoryGap gap = {};

  bool fits() const { return gap.missing() <= 0; }
};

class Simulator {
 public:
  explicit Simulator(const RunConfig& config)
      : config_(config),
        shape_(shape_of(config.common,
                        runs_on_gpus(machine_named(config.simulate.machines[0]), config.common))),
        shares_(shares(config.simulate.routing)) {}

  const ModelShape& shape() const { return shape_; }
  std::vector<std::vector<double>> shares(const std::string& routing) const {
    return shares_named(routing, shape_);
  }

  Point point(const Cluster& cluster, int ranks, int64_t batch,
              const std::vector<std::vector<double>>* shares = nullptr) const {
    const RankMap map = ranks_on(cluster, ranks, runs_on_gpus(cluster, config_.common),
                                 config_.simulate.coordinators);
    const Placement placement = placement_on(map);
    const auto coordinators = static_cast<double>(map.coordinators().size());
    const double each = static_cast<double>(batch) / coordinators;
    const auto context = static_cast<double>(config_.simulate.context);
    const SimulatorInput input{.shape = &shape_,
                               .ranks = &map,
                               .placement = &placement,
                               .shares = shares == nullptr ? shares_ : *shares,
                               .size = decode_size(each, context),
                               .adds_results = config_.common.combine == "reduced"};
    Point point{.machine = cluster.name,
                .ranks = map.num_ranks(),
                .batch = batch,
                .coordinators = config_.simulate.coordinators,
                .step = simulate_step(input)};
    point.tokens_per_s = point.step.tokens_per_s(input);
    point.gap = largest_gap(input, each * (context + 1));
    return point;
  }

 private:
  // With one coordinator among several ranks it holds none, as the program has it; else all share.
  Placement placement_on(const RankMap& map) const {
    PlacementOptions options{.num_ranks = map.num_ranks()};
    if (map.coordinators().size() > 1 && map.num_ranks() > 1) {
      options.coordinator_experts = shape_.num_experts / map.num_ranks();
    }
    return make_placement(parse_placement_option(config_.common.placement), shape_, options);
  }

  const RunConfig& config_;
  ModelShape shape_;
  std::vector<std::vector<double>> shares_;
};

std::vector<Point> sweep(const Simulator& simulator, const SimulateOptions& o) {
  std::vector<Point> points;
  for (const std::string& machine : o.machines) {
    const Cluster cluster = machine_named(machine);
    for (const int ranks : o.ranks) {
      for (const int64_t batch : o.batches)
        points.push_back(simulator.point(cluster, ranks, batch));
    }
  }
  return points;
}

std::string fits_text(const Point& p) {
  if (p.fits()) return "";
  return fmt::format("rank {} lacks {}", p.gap.rank,
                     format_bytes(static_cast<int64_t>(p.gap.missing())));
}

std::string table(const std::vector<Point>& points) {
  std::string text =
      "| machine | ranks | batch | coordinators | tokens/s | a rank | ms/step | attention | "
      "dispatch "
      "| experts | combine | head | bottleneck | memory |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|\n";
  for (const Point& p : points) {
    const SimulatedStep& s = p.step;
    const auto share = [&](double us) { return fmt::format("{:.0f} %", 100 * us / s.step_us); };
    text += fmt::format(
        "| {} | {} | {} | {} | {:.0f} | {:.0f} | {:.3f} | {} | {} | {} | {} | {} | {} | {} |\n",
        p.machine, p.ranks, p.batch, p.coordinators, p.tokens_per_s, p.tokens_per_s / p.ranks,
        s.step_us / 1e3, share(s.attention_us), share(s.dispatch_us), share(s.experts_us),
        share(s.combine_us), share(s.head_us), s.bottleneck(), p.fits() ? "fits" : fits_text(p));
  }
  return text;
}

std::string csv(const std::vector<Point>& points) {
  std::string text =
      "machine,ranks,batch,coordinators,tokens_per_s,step_us,attention_us,dispatch_us,experts_us,"
      "combine_us,head_us,bottleneck,missing_bytes\n";
  for (const Point& p : points) {
    const SimulatedStep& s = p.step;
    text += fmt::format("{},{},{},{},{:.2f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{:.0f}\n",
                        p.machine, p.ranks, p.batch, p.coordinators, p.tokens_per_s, s.step_us,
                        s.attention_us, s.dispatch_us, s.experts_us, s.combine_us, s.head_us,
                        s.bottleneck(), std::max(0.0, p.gap.missing()));
  }
  return text;
}

std::string json(const std::vector<Point>& points) {
  nlohmann::json list = nlohmann::json::array();
  for (const Point& p : points) {
    const SimulatedStep& s = p.step;
    list.push_back({{"machine", p.machine},
                    {"ranks", p.ranks},
                    {"batch", p.batch},
                    {"coordinators", p.coordinators},
                    {"tokens_per_s", p.tokens_per_s},
                    {"step_us", s.step_us},
                    {"attention_us", s.attention_us},
                    {"dispatch_us", s.dispatch_us},
                    {"experts_us", s.experts_us},
                    {"combine_us", s.combine_us},
                    {"head_us", s.head_us},
                    {"bottleneck", s.bottleneck()},
                    {"busiest_link", s.busiest_link},
                    {"busiest_link_share", s.busiest_link_share},
                    {"fits", p.fits()},
                    {"missing_bytes", std::max(0.0, p.gap.missing())}});
  }
  return list.dump(2) + "\n";
}

// One curve a machine and whatever else is swept, over what varies most.
std::string chart(const std::vector<Point>& points, const SimulateOptions& o,
                  const std::string& model) {
  const bool over_ranks = o.ranks.size() > 1 || o.batches.size() == 1;
  std::map<std::string, ChartCurve> curves;
  for (const Point& p : points) {
    const std::string name = over_ranks ? fmt::format("{}, batch {}", p.machine, p.batch)
                                        : fmt::format("{}, {} ranks", p.machine, p.ranks);
    ChartCurve& curve = curves[name];
    curve.name = name;
    curve.points.emplace_back(over_ranks ? p.ranks : static_cast<double>(p.batch), p.tokens_per_s);
  }
  Chart chart{.title = fmt::format("{}, context {}, {} coordinator{}", model, o.context,
                                   o.coordinators, o.coordinators == "1" ? "" : "s"),
              .x_label = over_ranks ? "ranks" : "batch",
              .y_label = "tokens/s",
              .has_log_x = true,
              .has_log_y = true};
  for (auto& [name, curve] : curves) {
    std::sort(curve.points.begin(), curve.points.end());
    chart.curves.push_back(std::move(curve));
  }
  return chart_svg(chart);
}

// What twice as fast a link of each kind, and more skew, would change.
std::string sensitivity(const Simulator& simulator, const SimulateOptions& o, const Point& point) {
  const Cluster cluster = machine_named(o.machines[0]);
  std::map<std::string, bool> kinds;
  for (const ClusterLink& link : cluster.links) kinds[link.kind] = true;
  std::string text = "\nIf this changed, the step would take\n";
  const auto line = [&](const std::string& what, double step_us) {
    text += fmt::format("  {:<32} {:>9.3f} ms  {:+.1f} %\n", what, step_us / 1e3,
                        100 * (step_us / point.step.step_us - 1));
  };
  for (const auto& [kind, is_there] : kinds) {
    Cluster faster = cluster;
    for (ClusterLink& link : faster.links) {
      if (link.kind == kind) link.gbps *= 2;
    }
    line(kind + " twice as fast", simulator.point(faster, o.ranks[0], point.batch).step.step_us);
  }
  for (const char* skew : {"zipf:0.6", "zipf:0.9", "zipf:1.2"}) {
    const auto shares = simulator.shares(skew);
    line(std::string("experts chosen by ") + skew,
         simulator.point(cluster, o.ranks[0], point.batch, &shares).step.step_us);
  }
  return text;
}

std::string report(const Simulator& simulator, const SimulateOptions& o, const Point& p) {
  const SimulatedStep& s = p.step;
  std::string text = fmt::format(
      "{} on {} rank{}, {} coordinator{}: {} sequences decode behind {} positions\n\n"
      "{:.0f} tokens/s, {:.0f} a rank; a step takes {:.3f} ms\n",
      p.machine, p.ranks, p.ranks == 1 ? "" : "s", p.coordinators, p.coordinators == "1" ? "" : "s",
      p.batch, o.context, p.tokens_per_s, p.tokens_per_s / p.ranks, s.step_us / 1e3);
  const auto line = [&](const char* stage, double us) {
    text += fmt::format("  {:<12} {:>9.3f} ms  {:5.1f} %\n", stage, us / 1e3, 100 * us / s.step_us);
  };
  line("attention", s.attention_us);
  line("dispatch", s.dispatch_us);
  line("experts", s.experts_us);
  line("combine", s.combine_us);
  line("head", s.head_us);
  text += "bottleneck: " + s.bottleneck() + "\n";
  if (!s.busiest_link.empty()) {
    text += fmt::format(
        "busiest link: {}, at work {:.0f} % of the step; rows {:.2f} MB, results "
        "{:.2f} MB\n",
        s.busiest_link, 100 * s.busiest_link_share, s.row_bytes / 1e6, s.result_bytes / 1e6);
  }
  if (!p.fits()) text += "memory: does not fit: " + fits_text(p) + "\n";
  return text + sensitivity(simulator, o, p);
}

}  // namespace

int simulate(const RunConfig& config) {
  const SimulateOptions& o = config.simulate;
  const Simulator simulator(config);
  const std::vector<Point> points = sweep(simulator, o);
  if (o.format == "csv") {
    write_out(csv(points));
  } else if (o.format == "json") {
    write_out(json(points));
  } else {
    write_out(points.size() == 1 ? report(simulator, o, points[0]) : table(points));
  }
  if (o.svg.empty()) return 0;
  std::ofstream file(o.svg, std::ios::binary);
  file << chart(points, o, config.common.shape.empty() ? config.common.model : config.common.shape);
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, "--svg ", o.svg, ": cannot be written");
  return 0;
}

}  // namespace colibri
