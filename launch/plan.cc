#include "launch/plan.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "launch/plan_input.h"
#include "launch/planning.h"
#include "launch/standard_out.h"
#include "topology/load_file.h"
#include "topology/placement_file.h"
#include "topology/placement_pictures.h"

namespace colibri {
namespace {

std::string ms(double us) { return fmt::format("{:.3f} ms", us / 1e3); }

std::string step_text(const SimulatedStep& s) {
  return fmt::format(
      "{}: attention {:.0f} %, dispatch {:.0f} %, experts {:.0f} %, combine {:.0f} %, "
      "head {:.0f} %; bottleneck: {}",
      ms(s.step_us), 100 * s.attention_us / s.step_us, 100 * s.dispatch_us / s.step_us,
      100 * s.experts_us / s.step_us, 100 * s.combine_us / s.step_us, 100 * s.head_us / s.step_us,
      s.bottleneck());
}

// The best of the choices that `is_like` the one asked for.
template <class IsLike>
const PlannedChoice* best_where(const Planning& planning, const IsLike& is_like) {
  const PlannedChoice* best = nullptr;
  for (const PlannedChoice& choice : planning.choices) {
    if (!is_like(choice)) continue;
    if (best == nullptr || choice.step.step_us < best->step.step_us) best = &choice;
  }
  return best;
}

std::string rank0_advice(const Planning& planning) {
  const auto* without = best_where(planning, [](const auto& c) { return !c.rank0_holds; });
  const auto* with = best_where(planning, [](const auto& c) { return c.rank0_holds; });
  if (without == nullptr || with == nullptr) return "";
  return fmt::format("rank 0 should hold {}: {} with, {} without",
                     planning.best.rank0_holds ? "experts" : "no experts", ms(with->step.step_us),
                     ms(without->step.step_us));
}

std::string replicas_advice(const Planning& planning) {
  std::string text = fmt::format("replicas a layer: {}", planning.best.num_replicas);
  for (const PlannedChoice& choice : planning.choices) {
    if (choice.rank0_holds != planning.best.rank0_holds) continue;
    text += fmt::format("{}{}: {}", text.find(" (") == std::string::npos ? " (" : ", ",
                        choice.num_replicas, ms(choice.step.step_us));
  }
  return text + ")";
}

std::string exchange_advice(const Planning& planning) {
  const double exact = planning.best.step.step_us, reduced = planning.reduced.step_us;
  return fmt::format("--combine {}: exact {}, reduced {}{}",
                     reduced < exact * 0.99 ? "reduced would be faster" : "exact", ms(exact),
                     ms(reduced), reduced < exact * 0.99 ? " (not part of this version)" : "");
}

PlanNotes notes_of(const Planning& planning, const RankMap& ranks) {
  const Plan& plan = planning.best.plan;
  PlanNotes notes{{"machine", ranks.cluster().name},
                  {"predicted_step", step_text(planning.best.step)},
                  {"layers", fmt::format("{:.1f} us, bound {:.1f} us, gap {:.2f} %",
                                         plan.predicted_us, plan.bound_us, 100 * plan.gap())},
                  {"replicas", replicas_advice(planning)},
                  {"exchange", exchange_advice(planning)}};
  if (const std::string text = rank0_advice(planning); !text.empty()) {
    notes.emplace_back("rank_0", text);
  }
  return notes;
}

std::string memory_text(const Planning& planning, const ModelShape& shape) {
  std::string text = "memory for experts:";
  const Placement& placement = planning.best.plan.placement;
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    const int64_t used = placement.num_slots(rank);
    const int64_t room = planning.capacity_slots[static_cast<size_t>(rank)];
    if (rank > 1 && rank + 1 < placement.num_ranks() && used == placement.num_slots(rank - 1)) {
      continue;
    }
    text += fmt::format("\n  rank {:<4} {} of {}", rank, format_bytes(used * shape.expert_bytes),
                        format_bytes(room * shape.expert_bytes));
  }
  return text + "\n";
}

std::string plan_text(const Planning& planning, const ModelShape& shape, const RankMap& ranks) {
  const Plan& plan = planning.best.plan;
  std::string text =
      fmt::format("machine {}, {} rank{}; {} ({} experts of {}, top {})\n", ranks.cluster().name,
                  ranks.num_ranks(), ranks.num_ranks() == 1 ? "" : "s", shape.family,
                  shape.num_experts, format_bytes(shape.expert_bytes), shape.top_k);
  text += describe(plan.placement) + "\n";
  text += "a step takes " + step_text(planning.best.step) + "\n";
  text += fmt::format("contiguous: {} ({:+.1f} %); balancedness {:.4f}, contiguous {:.4f}\n",
                      ms(planning.contiguous.step_us),
                      100 * (planning.contiguous.step_us / planning.best.step.step_us - 1),
                      planning.cost.balancedness, planning.contiguous_cost.balancedness);
  text += fmt::format(
      "experts and links of all layers: {:.1f} us, no plan is below {:.1f} us: gap "
      "{:.2f} %\n",
      plan.predicted_us, plan.bound_us, 100 * plan.gap());
  if (planning.cost.package_bytes_us > 0) {
    text += fmt::format("links between sockets or nodes: {:.1f} us of traffic, contiguous {:.1f}\n",
                        planning.cost.package_bytes_us, planning.contiguous_cost.package_bytes_us);
  }
  if (plan.num_moves > 0) text += fmt::format("moves: {} slots\n", plan.num_moves);
  text += memory_text(planning, shape);
  text += "advice:\n";
  for (const std::string& line :
       {rank0_advice(planning), replicas_advice(planning), exchange_advice(planning)}) {
    if (!line.empty()) text += "  " + line + "\n";
  }
  return text;
}

void write_file(const std::string& option, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, option, " ", path, ": cannot be written");
}

}  // namespace

int plan(const RunConfig& config) {
  const PlanOptions& o = config.plan;
  const Cluster cluster = machine_named(o.machine);
  const bool on_gpus = runs_on_gpus(cluster, config.common);
  const ModelShape shape = shape_of(config.common, on_gpus);
  const RankMap ranks = ranks_on(cluster, config.common.ranks, on_gpus, o.coordinators);
  std::optional<ExpertLoads> loads;
  if (!o.loads.empty()) loads = read_loads(o.loads, shape);
  std::optional<Placement> previous;
  if (!o.previous.empty()) previous = read_placement(o.previous, shape);
  const Planning planning =
      make_plan({.shape = &shape,
                 .ranks = &ranks,
                 .loads = loads ? &*loads : nullptr,
                 .batch = static_cast<double>(o.batch > 0 ? o.batch : 64),
                 .context = static_cast<double>(o.context > 0 ? o.context : 2048),
                 .num_replicas = o.replicas,
                 .survive = o.survive,
                 .previous = previous ? &*previous : nullptr,
                 .max_moves = o.max_moves});
  write_out(plan_text(planning, shape, ranks));
  const Placement& placement = planning.best.plan.placement;
  if (!o.out.empty()) write_placement(o.out, placement, shape, notes_of(planning, ranks));
  const auto shares = loads ? loaded_shares(shape, *loads) : uniform_shares(shape);
  if (!o.loads_svg.empty()) write_file("--loads-svg", o.loads_svg, loads_svg(shape, shares));
  if (!o.map_svg.empty()) write_file("--map-svg", o.map_svg, map_svg(shape, placement, shares));
  return 0;
}

}  // namespace colibri
