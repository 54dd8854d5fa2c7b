#include "launch/auto_placement.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "launch/plan_input.h"
#include "launch/planning.h"
#include "topology/catalogue.h"
#include "topology/load_file.h"
#include "topology/placement_file.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

using nlohmann::json;

constexpr int kEffort = 400;

// Ranks that nothing tells apart: a CPU part each, every two joined alike.
Cluster equal_ranks(int num_ranks) {
  const Catalogue& catalogue = builtin_catalogue();
  const LinkSpec& link = catalogue.links.at("memory");
  Cluster cluster{.name = "equal ranks", .devices = {catalogue.devices.at("cpu-server")}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    cluster.parts.push_back({.name = "rank" + std::to_string(rank), .device = 0, .num_cores = 1});
    for (int other = 0; other < rank; ++other) {
      cluster.links.push_back({other, rank, "memory", link.gbps, link.latency_us});
    }
  }
  return cluster;
}

Placement planned(const RankContext& context, const CommonOptions& options, const ModelShape& shape,
                  const AutoPlacementSizes& sizes) {
  const bool is_known = !options.machine.empty();
  const Cluster cluster = is_known ? machine_named(options.machine) : equal_ranks(context.size);
  const RankMap ranks = ranks_on(cluster, context.size, context.device.is_cuda() && is_known, "1");
  std::optional<ExpertLoads> loads;
  if (!options.loads.empty()) loads = read_loads(options.loads, shape);
  PlanningInput input{.shape = &shape,
                      .ranks = &ranks,
                      .loads = loads ? &*loads : nullptr,
                      .batch = sizes.batch,
                      .context = sizes.context,
                      .num_replicas = is_known ? -1 : 0,
                      .rank0_holds = options.coordinator_experts > 0 ? 1 : (is_known ? -1 : 0),
                      .survive = sizes.survive,
                      .effort = kEffort,
                      .capacity_slots = sizes.capacity_slots};
  if (!is_known && input.capacity_slots.empty()) {
    input.capacity_slots.assign(static_cast<size_t>(context.size),
                                int64_t{shape.num_moe_layers()} * shape.num_experts);
  }
  return make_plan(input).best.plan.placement;
}

// The plan, or the error in its stead.
std::string decision(const std::function<std::string()>& decide) {
  try {
    return json{{"placement", decide()}}.dump();
  } catch (const Error& error) {
    return json{{"kind", static_cast<int>(error.kind())}, {"error", error.what()}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
  }
}

std::string text_of(const std::vector<std::byte>& bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json decided = json::parse(text, text + bytes.size(), nullptr, false);
  if (decided.is_object() && decided.contains("error")) {
    const int kind = decided.value("kind", static_cast<int>(ErrorKind::kInternal));
    throw Error(static_cast<ErrorKind>(kind), decided.value("error", ""));
  }
  check(decided.is_object() && decided.contains("placement"), "rank 0's placement is no JSON");
  return decided.at("placement").get<std::string>();
}

}  // namespace

Placement auto_placement(RankContext& context, const CommonOptions& options,
                         const ModelShape& shape, const AutoPlacementSizes& sizes,
                         int64_t timeout_ms) {
  if (context.size == 1) return contiguous_placement(shape, {.num_ranks = 1});
  const std::string what = "planning the placement";
  const Deadline deadline =
      Deadline::after_ms(timeout_ms + (context.is_root() ? 0 : kAgreeGraceMs));
  try {
    std::string mine;
    if (context.is_root()) {
      mine =
          decision([&] { return placement_text(planned(context, options, shape, sizes), shape); });
    }
    const auto bytes = broadcast(
        *context.transport, std::as_bytes(std::span(mine.data(), mine.size())), deadline, what);
    return parse_placement(text_of(bytes), "the plan of rank 0", shape);
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
}

ExpertLoads read_earlier_loads(const CommonOptions& options, const ModelShape& shape) {
  ExpertLoads loads = empty_loads(shape, /*with_pairs=*/true);
  std::error_code code;
  if (options.loads_decay <= 0 || !std::filesystem::exists(options.record_loads, code)) {
    return loads;
  }
  ExpertLoads earlier = read_loads(options.record_loads, shape);
  merge_loads(earlier, loads, options.loads_decay);
  return earlier;
}

void write_recorded_loads(const CommonOptions& options, const ModelShape& shape,
                          const ExpertLoads& loads) {
  ExpertLoads all = read_earlier_loads(options, shape);
  merge_loads(all, loads, 1);
  write_loads(options.record_loads, all);
}

}  // namespace colibri
