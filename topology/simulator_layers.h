// What both forms of the simulator share: figures of the layers, and where time goes.
#pragma once

#include <vector>

#include "topology/layer_figures.h"
#include "topology/simulator.h"

namespace colibri {

// Figures of the MoE layers of a step, each made when it is asked for.
class FiguresOfLayers {
 public:
  // For `num_tokens` tokens, a coordinator's share or all.
  FiguresOfLayers(const StepRun& run, double num_tokens) : run_(run), num_tokens_(num_tokens) {}

  // Valid until the next call. `is_new` is false where they are those of the call before.
  const LayerFigures& of(int layer, bool& is_new);

 private:
  bool same_as_last(int layer) const;

  const StepRun& run_;
  double num_tokens_;
  int last_layer_ = -1;
  LayerFigures figures_;
};

// Longest start of an exchange among the ranks; 0 for one rank.
double exchange_start_us(const StepRanks& ranks);
// Factor on a link's time for messages that do not fill it: 1 + tail / peers.
double exchange_tail_factor(const StepRanks& ranks);

// "experts on node0.gpu1: reading weights", from the largest stage.
std::string bottleneck_text(const StepRun& run, const SimulatedStep& step);

SimulatedStep simulate_symmetric(const StepRun& run);
SimulatedStep simulate_events(const StepRun& run);

}  // namespace colibri
