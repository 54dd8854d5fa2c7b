// Plans of one model on one machine for each choice that a user has, held against each other by the
// simulator.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/plan_input.h"
#include "topology/loads.h"
#include "topology/planner.h"
#include "topology/simulator.h"

namespace colibri {

// What is planned. All of it outlives the plans.
struct PlanProblem {
  const ModelShape& shape;
  const RankMap& ranks;
  const std::optional<ExpertLoads>& loads;
  std::vector<int64_t> capacity_slots;  // [R]; empty: no limit
  int64_t batch = 64, context = 2048;
  const Placement* previous = nullptr;
  int64_t max_moves = -1;
  bool survives_one = false;
  bool adds_results = false;
};

// One choice, planned and simulated.
struct PlannedChoice {
  std::string name;
  Plan plan;
  SimulatedStep step;
  int coordinator_slots = -1, replicas = -1;
};

struct PlanAdvice {
  std::string what;                                     // "experts on rank 0"
  std::string answer;                                   // "none"
  std::vector<std::pair<std::string, double>> choices;  // name, us of a step
};

struct ChosenPlan {
  PlannedChoice best;
  LayerTerms terms;
  std::vector<PlanAdvice> advice;
};

LayerTerms plan_terms(const PlanProblem& problem);

// One plan. -1: as PlanRequest has it.
PlannedChoice planned_choice(const PlanProblem& problem, int coordinator_slots, int replicas);

// Where rank 0 holds experts or not, and with how many replicas a layer (-1: several numbers are
// tried), the fastest by the simulator; and what it says of results that are added before they
// travel, and between GPUs of the exchange mode. Near a previous placement rank 0 and the number of
// replicas stay as they are.
ChosenPlan choose_plan(const PlanProblem& problem, int replicas);

// How the program exchanges rows in such a step: between GPUs messages of fixed size up to
// kMaxFixedTokens sequences, else counts over the host.
ExchangeMode exchange_of(const PlanProblem& problem);

// Of a placement, as a step of the problem runs it.
SimulatedStep simulated(const PlanProblem& problem, const Placement& placement, bool adds_results,
                        ExchangeMode exchange);

}  // namespace colibri
