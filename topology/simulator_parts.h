// What both forms of the simulator share. Only for topology/simulator*.cc.
#pragma once

#include <vector>

#include "topology/simulator.h"

namespace colibri {

// Figures of the layers with experts for `num_tokens` tokens; layers that are alike share them.
class FiguresOfLayers {
 public:
  FiguresOfLayers(const SimulatorInput& input, double num_tokens);

  // Which of the distinct figures a layer has; -1: a dense layer.
  int index(int layer) const { return index_[static_cast<size_t>(layer)]; }
  size_t num_distinct() const { return distinct_.size(); }
  const LayerFigures& at(int index) const { return distinct_[static_cast<size_t>(index)]; }

 private:
  static bool are_alike(const SimulatorInput& input, int a, int b);

  std::vector<LayerFigures> distinct_;
  std::vector<int> index_;  // [L]
};

// [R] how much of what each rank reads comes out of caches.
std::vector<double> cached_shares(const SimulatorInput& input, const FiguresOfLayers& figures);

// What travels between one coordinator and each rank, as the exchange mode has it.
struct Travelling {
  std::vector<double> rows, results;  // [R]
};
// `part`: the coordinator's of the figures.
Travelling travelling(const SimulatorInput& input, const LayerFigures& figures, int coordinator,
                      double part);
// What a dispatch of the coordinator waits for before a row goes.
double counts_us(const SimulatorInput& input, int coordinator);

SimulatedStep simulate_symmetric(const SimulatorInput& input);
SimulatedStep simulate_events(const SimulatorInput& input);

}  // namespace colibri
