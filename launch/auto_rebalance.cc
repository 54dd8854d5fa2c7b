#include "launch/auto_rebalance.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "launch/run_map.h"
#include "topology/placement_file.h"

namespace colibri {
namespace {

constexpr double kDecay = 0.5;  // of earlier loads at each look
constexpr double kLeastCostUs = 1000;

}  // namespace

double RebalanceOffer::cost_us() const {
  const double bytes = static_cast<double>(num_moves) * static_cast<double>(expert_bytes);
  const double us = read_bytes_per_s > 0 ? 1e6 * bytes / read_bytes_per_s : 0;
  return std::max(us, kLeastCostUs);
}

AutoRebalance::AutoRebalance(const RebalanceParts& parts, int64_t every)
    : context_(parts.context),
      session_(parts.session),
      metrics_(parts.metrics),
      ranks_(parts.serving.ranks),
      every_(every),
      map_(map_of_run(parts.context, parts.options.machine)),
      batch_(parts.options.max_batch > 0 ? parts.options.max_batch : 16),
      recorder_(parts.session.shape()),
      planning_({.max_tasks = 1}) {
  parts.serving.observers.add(recorder_);
}

bool AutoRebalance::is_quiet() const {
  const ExpertRanksState state = ranks_.state();
  return state.lost.empty() && !state.is_recovering && !ranks_.is_rebalancing();
}

void AutoRebalance::step_done() {
  if (!is_quiet()) return;
  take_offer();
  if (++num_steps_ % every_ != 0 || planning_.num_left() > 0) return;
  ExpertLoads fresh = recorder_.take();
  if (recent_) merge_loads(*recent_, fresh, kDecay);
  if (!recent_) recent_ = std::move(fresh);
  const auto work = std::make_shared<const Work>(
      Work{parse_placement(ranks_.text(), "the placement", session_.shape()), *recent_});
  planning_.post(0, [this, work] { plan(*work); });
}

// Nothing that is thrown here ends the server: it goes on as it is.
void AutoRebalance::plan(const Work& work) {
  try {
    const ModelShape& shape = session_.shape();
    const LayerTerms terms = layer_terms(shape, map_, {.size = decode_size(batch_, 1024)});
    PlanRequest request{shape, terms, &work.loads};
    request.replicas = 0;
    request.previous = &work.now;
    Plan planned = plan_placement(request);
    const RebalanceOffer offer{.gain_us = planned.start_us - planned.predicted_us,
                               .num_steps = every_,
                               .num_moves = planned.num_moves,
                               .expert_bytes = shape.expert_bytes,
                               .read_bytes_per_s = session_.read_bytes_per_s()};
    context_.log->info(
        "rebalance: {} moves would save {:.1f} us of each of {} steps and cost {:.1f} ms: {}",
        offer.num_moves, offer.gain_us, offer.num_steps, offer.cost_us() / 1e3,
        offer.is_worth_it() ? "begun" : "left");
    metrics_.rebalance_looked(offer.is_worth_it() ? RebalanceLook::kBegun : RebalanceLook::kLeft,
                              offer.gain_us / 1e6);
    if (!offer.is_worth_it()) return;
    const std::lock_guard lock(mutex_);
    offer_ = Offer{std::move(planned.placement), offer};
  } catch (const Error& error) {
    metrics_.rebalance_looked(RebalanceLook::kFailed, 0);
    context_.log->warn("rebalance: no plan: {}", error.what());
  }
}

void AutoRebalance::take_offer() {
  std::optional<Offer> offer;
  {
    const std::lock_guard lock(mutex_);
    offer.swap(offer_);
  }
  if (!offer) return;
  ranks_.rebalance(std::move(offer->next), [this](const RebalanceResult& result) {
    metrics_.rebalanced(result);
    if (result.error) {
      context_.log->warn("rebalance: {}", result.error->message);
      return;
    }
    context_.log->info("rebalance: {} experts moved, {} read in {:.3f} s", result.num_moved_slots,
                       format_bytes(result.read_bytes), result.seconds);
  });
}

}  // namespace colibri
