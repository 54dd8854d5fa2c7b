#include "launch/plan_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "launch/session_backend.h"

namespace colibri {
namespace {

constexpr int64_t kEffort = 60'000;  // nobody waits for this plan

PlanRequest request_of(const PlanProblem& problem, const LayerTerms& terms) {
  PlanRequest request{problem.shape, terms, problem.loads ? &*problem.loads : nullptr};
  request.capacity_slots = problem.capacity_slots;
  request.survives_one = problem.survives_one;
  request.previous = problem.previous;
  request.max_moves = problem.max_moves;
  request.effort = kEffort;
  for (int rank = 0; rank < problem.ranks.num_ranks(); ++rank) {
    const ClusterPart& part = problem.ranks.part(rank);
    request.domain_of_rank.push_back(part.node * 64 + std::max(0, part.package));
  }
  return request;
}

// Slots a layer beyond one an expert that the memory has room for.
int64_t spare_slots(const PlanProblem& problem) {
  if (problem.capacity_slots.empty()) return 0;  // what copies cost is not known
  const int64_t layers = std::max(1, problem.shape.num_moe_layers());
  const int64_t all = int64_t{problem.shape.num_experts} * layers;
  int64_t room = 0;
  for (const int64_t slots : problem.capacity_slots) room += std::min(slots, all);
  return std::max<int64_t>(0, room / layers - problem.shape.num_experts);
}

// Slots beyond one an expert in the layer that has most.
int copies_in(const Placement& placement) {
  int most = 0;
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    if (!placement.has_experts(layer)) continue;
    int slots = 0;
    for (int rank = 0; rank < placement.num_ranks(); ++rank) {
      slots += static_cast<int>(placement.experts_of(layer, rank).size());
    }
    most = std::max(most, slots - placement.num_experts());
  }
  return most;
}

std::vector<int> replica_choices(const PlanProblem& problem, int replicas) {
  if (replicas >= 0) return {replicas};
  if (problem.previous != nullptr) return {copies_in(*problem.previous)};
  std::vector<int> choices = {0};
  const int64_t spare = spare_slots(problem);
  for (int64_t n = problem.ranks.num_ranks(); n <= spare && choices.size() < 5; n *= 2) {
    choices.push_back(static_cast<int>(n));
  }
  if (choices.size() == 1 && spare > 0) choices.push_back(static_cast<int>(spare));
  return choices;
}

std::string coordinator_text(const PlannedChoice& choice) {
  return choice.coordinator_slots == 0 ? "as few as fit" : "as many as pay";
}

// Of the choices with the best of the other question.
PlanAdvice advice(std::string what, const std::vector<PlannedChoice>& choices,
                  const std::string& answer,
                  const std::function<std::string(const PlannedChoice&)>& name) {
  PlanAdvice advice{std::move(what), answer, {}};
  for (const PlannedChoice& choice : choices) {
    advice.choices.emplace_back(name(choice), choice.step.step_us);
  }
  return advice;
}

PlanAdvice faster_of(std::string what, std::vector<std::pair<std::string, double>> choices) {
  const auto best =
      std::min_element(choices.begin(), choices.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string answer = best->first;
  return {std::move(what), std::move(answer), std::move(choices)};
}

// The first that no later one beats by more than a thousandth.
const PlannedChoice& best_of(const std::vector<PlannedChoice>& choices) {
  const PlannedChoice* best = &choices.front();
  for (const PlannedChoice& choice : choices) {
    if (choice.step.step_us < best->step.step_us * 0.999) best = &choice;
  }
  return *best;
}

}  // namespace

LayerTerms plan_terms(const PlanProblem& problem) {
  return layer_terms(problem.shape, problem.ranks,
                     {.size = decode_size(static_cast<double>(problem.batch),
                                          static_cast<double>(problem.context)),
                      .adds_results = problem.adds_results});
}

ExchangeMode exchange_of(const PlanProblem& problem) {
  if (!problem.ranks.is_gpu(0)) return ExchangeMode::kKnownCounts;
  return problem.batch <= kMaxFixedTokens ? ExchangeMode::kFixedSize : ExchangeMode::kHostCounts;
}

SimulatedStep simulated(const PlanProblem& problem, const Placement& placement, bool adds_results,
                        ExchangeMode exchange) {
  SimulatorInput input{
      .shape = &problem.shape,
      .ranks = &problem.ranks,
      .placement = &placement,
      .shares = problem.loads ? loaded_shares(problem.shape, *problem.loads)
                              : uniform_shares(problem.shape),
      .size = decode_size(static_cast<double>(problem.batch), static_cast<double>(problem.context)),
      .adds_results = adds_results,
      .exchange = exchange};
  return simulate_step(input);
}

PlannedChoice planned_choice(const PlanProblem& problem, int coordinator_slots, int replicas) {
  const LayerTerms terms = plan_terms(problem);
  PlanRequest request = request_of(problem, terms);
  request.coordinator_slots = coordinator_slots;
  request.replicas = replicas;
  Plan plan = plan_placement(request);
  SimulatedStep step =
      simulated(problem, plan.placement, problem.adds_results, exchange_of(problem));
  return {"", std::move(plan), std::move(step), coordinator_slots, replicas};
}

ChosenPlan choose_plan(const PlanProblem& problem, int replicas) {
  std::vector<PlannedChoice> on_rank0;
  const std::vector<int> counts = replica_choices(problem, replicas);
  on_rank0.push_back(planned_choice(problem, -1, counts[0]));
  if (problem.ranks.num_ranks() > 1 && problem.previous == nullptr) {
    on_rank0.push_back(planned_choice(problem, 0, counts[0]));
  }
  const int slots = best_of(on_rank0).coordinator_slots;
  std::vector<PlannedChoice> by_replicas;
  for (const int count : counts) by_replicas.push_back(planned_choice(problem, slots, count));
  const PlannedChoice* best = &best_of(by_replicas);
  ChosenPlan chosen{*best, plan_terms(problem), {}};
  if (on_rank0.size() > 1) {
    chosen.advice.push_back(
        advice("experts on rank 0", on_rank0, coordinator_text(*best), coordinator_text));
  }
  if (by_replicas.size() > 1) {
    chosen.advice.push_back(
        advice("replicas a layer", by_replicas, std::to_string(best->replicas),
               [](const PlannedChoice& choice) { return std::to_string(choice.replicas); }));
  }
  if (problem.ranks.num_ranks() == 1) return chosen;
  const ExchangeMode exchange = exchange_of(problem);
  const auto step_us = [&](bool adds_results, ExchangeMode mode) {
    return simulated(problem, best->plan.placement, adds_results, mode).step_us;
  };
  chosen.advice.push_back(faster_of(
      "--combine", {{"exact", step_us(false, exchange)}, {"reduced", step_us(true, exchange)}}));
  if (exchange != ExchangeMode::kKnownCounts) {
    chosen.advice.push_back(
        faster_of("exchange", {{"exact counts", step_us(false, ExchangeMode::kHostCounts)},
                               {"fixed size", step_us(false, ExchangeMode::kFixedSize)}}));
  }
  return chosen;
}

}  // namespace colibri
