// A plan for a model on a machine, with what else was tried: behind `plan` and --placement auto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/loads.h"
#include "topology/planner.h"
#include "topology/rank_map.h"
#include "topology/simulator.h"

namespace colibri {

struct PlanningInput {
  const ModelShape* shape = nullptr;
  const RankMap* ranks = nullptr;
  const ExpertLoads* loads = nullptr;  // null: every expert as often
  double batch = 64, context = 2048;   // sequences that decode, positions behind each
  int num_replicas = -1;               // slots a layer beyond one an expert; -1: the best of some
  int rank0_holds = -1;                // 0 no, 1 yes, -1 the better of both
  int survive = 0;
  const Placement* previous = nullptr;
  int64_t max_moves = -1;
  int effort = 3000;  // PlanRequest::effort
  // [R] slots that fit, all layers together; empty: worked out of the machine's memory.
  std::vector<int64_t> capacity_slots = {};
};

// One choice, planned and simulated.
struct PlannedChoice {
  bool rank0_holds = false;
  int num_replicas = 0;
  Plan plan;
  SimulatedStep step;
};

struct Planning {
  PlannedChoice best;                   // the smallest simulated step
  std::vector<PlannedChoice> choices;   // all, in the order tried
  SimulatedStep reduced;                // the best one with pre-added results
  SimulatedStep contiguous;             // without a plan
  PlacementCost cost, contiguous_cost;  // by the planner's terms
  std::vector<int64_t> capacity_slots;  // [R]
};

// Errors: those of plan_placement; kEnvironment naming rank, need, have and what to do where a
// rank's memory does not hold what it needs besides experts, or --survive 1 leaves no room.
Planning make_plan(const PlanningInput& input);

// [R] slots, all layers together, that fit beside the coordinator's weights, keys and values,
// messages and NCCL's buffers. Errors: kEnvironment as above.
std::vector<int64_t> slots_that_fit(const PlanningInput& input);

}  // namespace colibri
