// --placement auto: rank 0 plans where the experts lie, the others hear of it.
#include "base/error.h"
#include "launch/loads_option.h"
#include "launch/model_session.h"
#include "launch/run_map.h"
#include "launch/this_machine.h"
#include "topology/placement_file.h"
#include "topology/planner.h"
#include "transport/collectives.h"

namespace colibri {

Placement ModelSession::plan_of_root(const std::vector<int64_t>& capacity_slots) const {
  const RankMap ranks = map_of_run(context_, options_.machine);
  const double context = static_cast<double>(max_context()) / 2;
  const LayerTerms terms =
      layer_terms(shape_, ranks, {.size = decode_size(num_sequences(), context)});
  const std::optional<ExpertLoads> loads = loads_named(options_.loads, shape_);
  PlanRequest request{shape_, terms, loads ? &*loads : nullptr};
  request.capacity_slots = capacity_slots;
  if (options_.coordinator_experts > 0) request.coordinator_slots = options_.coordinator_experts;
  // Ranks of one machine's CPU share its memory: copies there would have to be paid for.
  if (capacity_slots.empty()) request.replicas = 0;
  request.survives_one = needs_.survives_one;
  for (int rank = 0; rank < context_.size; ++rank) {
    request.domain_of_rank.push_back(ranks.part(rank).node);
  }
  const Plan plan = plan_placement(request);
  context_.log->info("placement auto: {}; {:.1f} us a step predicted, {:.1f} % above the bound",
                     describe(plan.placement), plan.predicted_us, 100 * plan.gap());
  return plan.placement;
}

// Called by all ranks together. A host without a network adapter, or one that is not seen, is no
// reason not to run: the plan then knows nothing of the machine.
void ModelSession::see_hosts(int64_t timeout_ms) {
  const bool is_one_host = context_.num_local_ranks == context_.size;
  if (is_one_host || context_.transport == nullptr || !options_.machine.empty()) return;
  try {
    Cluster all = machine_of_ranks(context_, timeout_ms).cluster;
    if (context_.is_root()) context_.hosts = std::make_shared<const Cluster>(std::move(all));
  } catch (const AgreedError& error) {
    if (error.kind() != ErrorKind::kInput && error.kind() != ErrorKind::kEnvironment) throw;
    if (context_.is_root()) context_.log->info("placement auto: {}", error.what());
  }
}

std::optional<Placement> ModelSession::planned_placement(const std::vector<int64_t>& capacity_slots,
                                                         int64_t timeout_ms) {
  if (parse_placement_option(options_.placement).kind != PlacementKind::kAuto) return std::nullopt;
  see_hosts(timeout_ms);
  const std::string what = "planning the experts' places";
  std::string text;
  agreed(context_, what, timeout_ms, [&] {
    if (context_.is_root()) text = placement_text(plan_of_root(capacity_slots), shape_);
  });
  if (context_.size > 1) {
    try {
      const Deadline deadline =
          Deadline::after_ms(timeout_ms + (context_.is_root() ? 0 : kAgreeGraceMs));
      const std::vector<std::byte> bytes = broadcast(
          *context_.transport, std::as_bytes(std::span(text.data(), text.size())), deadline, what);
      text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } catch (const Error& error) {
      throw AgreedError(error.kind(), error.what());
    }
  }
  return parse_placement(text, "rank 0's plan", shape_);
}

}  // namespace colibri
