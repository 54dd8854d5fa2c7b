// Predicts a step: an event model of the schedule that the program runs.
//
// Per layer each coordinator runs attention, router and shared expert; sends rows to the ranks that
// its tokens chose; runs its own slots; ranks work off what arrives in that order; results come
// back and are added. One batch, no overlap between layers. A link's direction carries one message
// after the other, so several coordinators and ranks wait for each other there. Between GPUs the
// rows of one layer travel as one group and arrive together; between CPUs one by one, in the order
// of the ranks. When every rank is a coordinator (the symmetric form of published systems) all
// ranks act alike and the exchange takes as long as its busiest link.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/layer_figures.h"
#include "topology/loads.h"
#include "topology/placement.h"
#include "topology/rank_map.h"

namespace colibri {

struct SimulatorInput {
  const ModelShape* shape = nullptr;
  const RankMap* ranks = nullptr;
  const Placement* placement = nullptr;
  // [L][E] chances that a token chooses each expert; dense layers may be empty. Empty: K / E each.
  std::vector<std::vector<double>> shares = {};
  StepSize size;              // of each coordinator
  bool adds_results = false;  // --combine reduced
};

// Of coordinator 0, along what it waited for; sums over the layers.
struct SimulatedStep {
  double step_us = 0;
  double attention_us = 0;  // with router, shared expert and everything else of its own
  double dispatch_us = 0;   // until the rows of the rank it waited for were there
  double experts_us = 0;    // of that rank, with waiting for others' rows there
  double combine_us = 0;    // until its results were there
  double head_us = 0;
  // Share of the step that the busiest link's direction and the busiest rank's experts are at work.
  std::string busiest_link;
  double busiest_link_share = 0;
  int busiest_rank = 0;
  double busiest_rank_share = 0;
  double row_bytes = 0, result_bytes = 0;  // over links, all layers and coordinators

  // "link node0.gpu0 > node0.nvswitch (nvlink4)", "experts on rank 3" or "attention of rank 0".
  std::string bottleneck() const;
  double tokens_per_s(const SimulatorInput& input) const;
};
SimulatedStep simulate_step(const SimulatorInput& input);

// Uniform choices; or of each layer a shuffle of p_e ~ 1 / rank^skew, sum K, none above 1. [L][E].
std::vector<std::vector<double>> uniform_shares(const ModelShape& shape);
std::vector<std::vector<double>> zipf_shares(const ModelShape& shape, double skew, uint64_t seed);
std::vector<std::vector<double>> loaded_shares(const ModelShape& shape, const ExpertLoads& loads);

// What a rank's memory lacks: slots, the coordinator's weights where it is one, keys and values of
// its sequences. A GPU's or its share of a NUMA node's. Negative: what is left.
struct MemoryGap {
  int rank = 0;
  double need_bytes = 0, have_bytes = 0;
  double missing() const { return need_bytes - have_bytes; }
};
// Of the rank that lacks most (or has least left).
MemoryGap largest_gap(const SimulatorInput& input, double kv_positions);

}  // namespace colibri
