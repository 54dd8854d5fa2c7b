// What `colibri plan` prints, and what its file carries beside the placement.
#pragma once

#include <string>
#include <vector>

#include "launch/plan_choices.h"
#include "launch/rank_rooms.h"

namespace colibri {

// Figures of each MoE layer, ascending.
std::vector<LayerFigures> plan_figures(const PlanProblem& problem, const Placement& placement);

std::string plan_report(const PlanProblem& problem, const std::vector<RankRoom>& rooms,
                        const ChosenPlan& chosen);

// A JSON object: machine, step, prediction, bound, advice. Times in us.
std::string plan_notes(const PlanProblem& problem, const ChosenPlan& chosen);

}  // namespace colibri
