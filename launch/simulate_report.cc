#include "launch/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/units.h"
#include "topology/svg.h"

namespace colibri {
namespace {

struct NamedStage {
  const char* key;
  const char* name;
  double SimulatedStep::*us;
};

// They add up to the step.
constexpr NamedStage kStages[] = {
    {"attention_us", "attention", &SimulatedStep::attention_us},
    {"dispatch_us", "dispatch", &SimulatedStep::dispatch_us},
    {"wait_us", "rows wait", &SimulatedStep::wait_us},
    {"experts_us", "experts", &SimulatedStep::experts_us},
    {"combine_us", "combine", &SimulatedStep::combine_us},
    {"own_us", "own experts", &SimulatedStep::own_us},
    {"head_us", "head", &SimulatedStep::head_us},
};

std::string counted(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string coordinators_text(const std::string& coordinators) {
  if (coordinators == "all") return "every rank a coordinator";
  return coordinators + (coordinators == "1" ? " coordinator" : " coordinators");
}

std::string lacks_text(const SimulatedPoint& p) {
  return fmt::format("rank {} lacks {}", p.gap.rank,
                     format_bytes(static_cast<int64_t>(p.gap.missing())));
}

std::string facts_text(const SimulatedFacts& facts) {
  return fmt::format("{}, weights {}, routing {}, each sequence behind {} positions", facts.model,
                     facts.weights, facts.routing, facts.context);
}

std::string stages_text(const SimulatedStep& s) {
  std::string text;
  const auto line = [&](const std::string& stage, double us) {
    text += fmt::format("  {:<18} {:>9.3f} ms  {:5.1f} %\n", stage, us / 1e3, 100 * us / s.step_us);
  };
  for (const NamedStage& stage : kStages) {
    line(stage.name, s.*stage.us);
    if (stage.us != &SimulatedStep::attention_us) continue;
    line("  projections", s.dense_us);
    line("  over the context", s.context_us);
    line("  norms, router", s.attention_us - s.dense_us - s.context_us);
  }
  return text;
}

template <class Value>
size_t num_values(const std::vector<SimulatedPoint>& points, Value SimulatedPoint::*value) {
  std::set<Value> values;
  for (const SimulatedPoint& p : points) values.insert(p.*value);
  return values.size();
}

// What a chart of these points is drawn over, and what tells its curves apart.
struct Axes {
  bool over_ranks = false;
  bool names_machines = false, names_coordinators = false, names_other = false;
  int64_t batch_a_rank = 0;  // that all points share; 0: none

  explicit Axes(const std::vector<SimulatedPoint>& points) {
    const size_t num_ranks = num_values(points, &SimulatedPoint::ranks);
    const size_t num_batches = num_values(points, &SimulatedPoint::batch);
    over_ranks = num_ranks > 1 || num_batches == 1;
    names_machines = num_values(points, &SimulatedPoint::machine) > 1;
    names_coordinators = num_values(points, &SimulatedPoint::coordinators) > 1;
    std::set<int64_t> a_rank;
    for (const SimulatedPoint& p : points) {
      a_rank.insert(p.batch % p.ranks == 0 ? p.batch / p.ranks : 0);
    }
    if (over_ranks && num_ranks > 1 && a_rank.size() == 1) batch_a_rank = *a_rank.begin();
    names_other = over_ranks ? num_batches > 1 && batch_a_rank == 0 : num_ranks > 1;
  }

  std::string curve_name(const SimulatedPoint& p) const {
    std::string name;
    const auto add = [&name](const std::string& part) {
      name += (name.empty() ? "" : ", ") + part;
    };
    if (names_machines) add(p.machine);
    if (names_coordinators) add(coordinators_text(p.coordinators));
    if (names_other) add(over_ranks ? fmt::format("batch {}", p.batch) : counted(p.ranks, "rank"));
    return name.empty() ? p.machine : name;
  }
};

}  // namespace

std::string point_text(const SimulatedFacts& facts, const SimulatedPoint& p,
                       const std::vector<WhatIf>& changes) {
  const SimulatedStep& s = p.step;
  std::string text = fmt::format(
      "{}\n{}: {}, {}, {}\n\n{:.0f} tokens/s, {:.0f} a rank; a step takes {:.3f} ms\n",
      facts_text(facts), p.machine, counted(p.ranks, "rank"), coordinators_text(p.coordinators),
      counted(p.batch, "sequence"), p.tokens_per_s, p.tokens_per_s / p.ranks, s.step_us / 1e3);
  text += stages_text(s) + "bottleneck: " + s.bottleneck() + "\n";
  if (!s.busiest_link.empty()) {
    text += fmt::format("busiest link: {}, at work {:.0f} % of the step; rows {}, results {}\n",
                        s.busiest_link, 100 * s.busiest_link_share,
                        format_bytes(static_cast<int64_t>(s.row_bytes)),
                        format_bytes(static_cast<int64_t>(s.result_bytes)));
  }
  text += p.fits() ? fmt::format("memory: fits; rank {}, the fullest, has {} left\n", p.gap.rank,
                                 format_bytes(static_cast<int64_t>(-p.gap.missing())))
                   : "memory: does not fit: " + lacks_text(p) + "\n";
  if (changes.empty()) return text;
  text += "\nIf this changed, the step would take\n";
  for (const WhatIf& change : changes) {
    text += fmt::format("  {:<32} {:>9.3f} ms  {:+.1f} %\n", change.what, change.step_us / 1e3,
                        100 * (change.step_us / s.step_us - 1));
  }
  return text;
}

std::string simulated_table(const SimulatedFacts& facts,
                            const std::vector<SimulatedPoint>& points) {
  std::string text = facts_text(facts) +
                     "\n\n| machine | ranks | coordinators | batch | tokens/s | a rank | ms/step |";
  std::string rule = "\n|---|---:|---:|---:|---:|---:|---:|";
  for (const NamedStage& stage : kStages) {
    text += fmt::format(" {} |", stage.name);
    rule += "---:|";
  }
  text += " bottleneck | memory |" + rule + "---|---|\n";
  for (const SimulatedPoint& p : points) {
    text += fmt::format("| {} | {} | {} | {} | {:.0f} | {:.0f} | {:.3f} |", p.machine, p.ranks,
                        p.coordinators, p.batch, p.tokens_per_s, p.tokens_per_s / p.ranks,
                        p.step.step_us / 1e3);
    for (const NamedStage& stage : kStages) {
      text += fmt::format(" {:.0f} % |", 100 * (p.step.*stage.us) / p.step.step_us);
    }
    text += fmt::format(" {} | {} |\n", p.step.bottleneck(),
                        p.fits() ? "fits" : "does not fit: " + lacks_text(p));
  }
  return text;
}

std::string simulated_csv(const std::vector<SimulatedPoint>& points) {
  std::string text = "machine,ranks,coordinators,batch,tokens_per_s,step_us";
  for (const NamedStage& stage : kStages) text += fmt::format(",{}", stage.key);
  text += ",bottleneck,missing_bytes\n";
  for (const SimulatedPoint& p : points) {
    text += fmt::format("{},{},{},{},{:.2f},{:.3f}", p.machine, p.ranks, p.coordinators, p.batch,
                        p.tokens_per_s, p.step.step_us);
    for (const NamedStage& stage : kStages) text += fmt::format(",{:.3f}", p.step.*stage.us);
    text += fmt::format(",{},{:.0f}\n", p.step.bottleneck(), std::max(0.0, p.gap.missing()));
  }
  return text;
}

std::string simulated_json(const SimulatedFacts& facts, const std::vector<SimulatedPoint>& points,
                           const std::vector<WhatIf>& changes) {
  nlohmann::json list = nlohmann::json::array();
  for (const SimulatedPoint& p : points) {
    const SimulatedStep& s = p.step;
    nlohmann::json stages;
    for (const NamedStage& stage : kStages) stages[stage.key] = s.*stage.us;
    list.push_back({{"machine", p.machine},
                    {"ranks", p.ranks},
                    {"coordinators", p.coordinators},
                    {"batch", p.batch},
                    {"tokens_per_s", p.tokens_per_s},
                    {"step_us", s.step_us},
                    {"stages", stages},
                    {"bottleneck", s.bottleneck()},
                    {"busiest_link", s.busiest_link},
                    {"busiest_link_share", s.busiest_link_share},
                    {"row_bytes", s.row_bytes},
                    {"result_bytes", s.result_bytes},
                    {"fits", p.fits()},
                    {"missing_bytes", std::max(0.0, p.gap.missing())}});
  }
  nlohmann::json what_if = nlohmann::json::object();
  for (const WhatIf& change : changes) what_if[change.what] = change.step_us;
  return nlohmann::json{{"model", facts.model},     {"weights", facts.weights},
                        {"routing", facts.routing}, {"context", facts.context},
                        {"points", list},           {"step_us_if", what_if}}
             .dump(2) +
         "\n";
}

std::string simulated_svg(const SimulatedFacts& facts, const std::vector<SimulatedPoint>& points) {
  const Axes axes(points);
  Chart chart{
      .title = fmt::format("{}, weights {}, context {}", facts.model, facts.weights, facts.context),
      .x_label = axes.over_ranks ? "ranks" : "batch",
      .y_label = "tokens/s",
      .has_log_x = true,
      .has_log_y = true,
      .curves = {},
      .notes = {}};
  if (axes.batch_a_rank > 0)
    chart.notes.push_back(counted(axes.batch_a_rank, "sequence") + " a rank");
  std::map<std::string, ChartCurve> curves;
  bool has_dashed = false;
  for (const SimulatedPoint& p : points) {
    const std::string name = axes.curve_name(p) + (p.fits() ? "" : " (no room)");
    ChartCurve& curve = curves[name];
    curve.name = name;
    curve.is_dashed = !p.fits();
    has_dashed = has_dashed || !p.fits();
    curve.points.emplace_back(axes.over_ranks ? p.ranks : static_cast<double>(p.batch),
                              p.tokens_per_s);
  }
  if (has_dashed) chart.notes.push_back("dashed: does not fit in memory, were there room");
  for (auto& [name, curve] : curves) {
    std::sort(curve.points.begin(), curve.points.end());
    chart.curves.push_back(std::move(curve));
  }
  return chart_svg(chart);
}

}  // namespace colibri
