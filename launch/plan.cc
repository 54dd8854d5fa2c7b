#include "launch/plan.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "launch/loads_option.h"
#include "launch/plan_map.h"
#include "launch/plan_report.h"
#include "launch/standard_out.h"
#include "topology/machine_picture.h"
#include "topology/placement_file.h"
#include "topology/placement_pictures.h"

namespace colibri {
namespace {

constexpr int64_t kDefaultContext = 2048;

int64_t total(const std::vector<int64_t>& slots) {
  int64_t sum = 0;
  for (const int64_t each : slots) sum += each;
  return sum;
}

// The least that would make room for all experts, of what can be changed on the command line.
std::string smallest_change(const RunConfig& config, const RankMap& ranks, int64_t batch,
                            int64_t context) {
  std::string changes;
  const bool on_gpus = ranks.is_gpu(0);
  const auto fits = [&](const ModelShape& shape, const RankMap& map) {
    std::vector<int64_t> slots;
    for (const RankRoom& room : rank_rooms(shape, map, batch, context)) {
      slots.push_back(room.slots(shape.expert_bytes));
    }
    return total(slots) >= int64_t{shape.num_moe_layers()} * shape.num_experts;
  };
  const ModelShape shape = shape_of(config.common, on_gpus);
  const auto gpus = static_cast<int>(ranks.cluster().parts_of(PartKind::kGpu).size());
  for (int more = ranks.num_ranks() + 1; on_gpus && more <= gpus; ++more) {
    if (!fits(shape, ranks_on(ranks.cluster(), more, true, "1"))) continue;
    changes = "--ranks " + std::to_string(more);
    break;
  }
  for (const char* format : {"q8", "q4"}) {
    CommonOptions smaller = config.common;
    smaller.weights = format;
    const ModelShape other = shape_of(smaller, on_gpus);
    if (other.expert_bytes >= shape.expert_bytes || !fits(other, ranks)) continue;
    changes += (changes.empty() ? "--weights " : ", or --weights ") + std::string(format);
    break;
  }
  return changes.empty() ? "no other --ranks or --weights on this machine would fit"
                         : changes + " would fit";
}

std::optional<Placement> previous_of(const RunConfig& config, const ModelShape& shape) {
  if (!config.plan.previous.empty()) return read_placement(config.plan.previous, shape);
  if (config.plan.max_moves >= 0) {
    fail(ErrorKind::kInput, "--max-moves ", config.plan.max_moves, " wants --previous FILE");
  }
  return std::nullopt;
}

void write_picture(const std::string& path, const std::string& svg) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << svg;
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, "cannot write ", path);
}

void write_pictures(const PlanOptions& o, const PlanProblem& problem, const ChosenPlan& chosen) {
  if (!o.svg.empty()) write_picture(o.svg, cluster_svg(problem.ranks.cluster()));
  if (!o.loads_svg.empty()) {
    const ModelShape& shape = problem.shape;
    const auto shares =
        problem.loads ? loaded_shares(shape, *problem.loads) : uniform_shares(shape);
    write_picture(o.loads_svg, loads_svg(shape, shares));
  }
  if (!o.balance_svg.empty()) {
    const ModelShape& shape = problem.shape;
    const auto shares =
        problem.loads ? loaded_shares(shape, *problem.loads) : uniform_shares(shape);
    const Placement contiguous =
        contiguous_placement(shape, {.num_ranks = problem.ranks.num_ranks()});
    const Placement& before = problem.previous != nullptr ? *problem.previous : contiguous;
    write_picture(o.balance_svg,
                  balance_svg(shape,
                              {{problem.previous != nullptr ? "previous" : "contiguous", &before},
                               {"plan", &chosen.best.plan.placement}},
                              shares));
  }
  if (!o.map_svg.empty()) {
    const Placement& placement = chosen.best.plan.placement;
    write_picture(o.map_svg,
                  placement_map_svg(placement, plan_figures(problem, placement),
                                    problem.ranks.cluster().name + ": experts on ranks"));
  }
}

}  // namespace

int plan(const RunConfig& config) {
  const PlanOptions& o = config.plan;
  const Cluster cluster = machine_named(o.machine);
  const bool on_gpus = runs_on_gpus(cluster, config.common);
  const ModelShape shape = shape_of(config.common, on_gpus);
  if (shape.num_moe_layers() == 0) fail(ErrorKind::kInput, "the model has no experts to place");
  const RankMap ranks = ranks_on(cluster, config.common.ranks, on_gpus, "1");
  const std::optional<ExpertLoads> loads = loads_named(o.loads, shape);
  const std::optional<Placement> previous = previous_of(config, shape);
  PlanProblem problem{.shape = shape,
                      .ranks = ranks,
                      .loads = loads,
                      .capacity_slots = {},
                      .batch = o.batch[0],
                      .context = o.context > 0 ? o.context : kDefaultContext,
                      .previous = previous ? &*previous : nullptr,
                      .max_moves = o.max_moves,
                      .survives_one = o.survive > 0};
  const std::vector<RankRoom> rooms = rank_rooms(shape, ranks, problem.batch, problem.context);
  problem.capacity_slots = slots_that_fit(shape, rooms, problem.batch, problem.context);
  try {
    const ChosenPlan chosen = choose_plan(problem, o.replicas);
    write_out(plan_report(problem, rooms, chosen));
    if (!o.out.empty()) {
      write_placement(o.out, chosen.best.plan.placement, shape, plan_notes(problem, chosen));
    }
    write_pictures(o, problem, chosen);
  } catch (const Error& error) {
    const int64_t need = int64_t{shape.num_moe_layers()} * shape.num_experts;
    if (problem.capacity_slots.empty() || total(problem.capacity_slots) >= need) throw;
    fail(error.kind(), error.what(), "; ",
         smallest_change(config, ranks, problem.batch, problem.context));
  }
  return 0;
}

}  // namespace colibri
