// Predicts a step: an event model of the schedule that the program runs. Deterministic; nothing is
// drawn, every count is an expectation.
//
// Per layer each coordinator runs projections, attention and router; sends rows to the ranks that
// its tokens chose; runs the shared expert and its own slots meanwhile; ranks work off what arrives
// in that order; results come back and are added. One batch, no overlap between layers. A link's
// direction carries one message after the other, so several coordinators and ranks wait for each
// other there. Between GPUs the rows of one layer travel as one group and arrive together; between
// CPUs one by one, in the order of the ranks. An exchange takes RankMap::exchange_us() of its start
// and of what its links take. Where counts go over the host each dispatch and all that follows wait
// for them; messages of fixed size go to every other rank.
//
// When every rank is a coordinator (the symmetric form of published systems) all ranks act alike:
// the exchange takes as long as its busiest link, and a rank computes the rows of all coordinators
// at once. With fewer, each message is computed by itself: experts that several coordinators want
// are read for each of them.
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
  // [L] touched experts, as a multiple of what independent choices of those shares touch: the
  // tokens of one sequence choose alike, those of several do not. Empty: 1.
  std::vector<double> touched_factor = {};
  StepSize size;              // of each coordinator
  bool adds_results = false;  // --combine reduced
  ExchangeMode exchange = ExchangeMode::kKnownCounts;
};

// Of the coordinator that ends last, along what it waited for; sums over the layers. step_us =
// attention + own + dispatch + wait + experts + combine + head.
struct SimulatedStep {
  double step_us = 0;
  double attention_us = 0;  // everything of its own before rows go: of it
  double dense_us = 0;      //   projections and dense layers
  double context_us = 0;    //   attention over the context
  double own_us = 0;        // shared expert and own slots, where they outlast all messages
  double dispatch_us = 0;   // until the rows of the rank it waited for were there
  double wait_us = 0;       // until that rank had done what came before
  double experts_us = 0;    // of that rank
  double combine_us = 0;    // until its results were there
  double head_us = 0;
  double start_us = 0;  // what of dispatch and combine would be without a byte
  // Share of the step that the busiest link's direction and the busiest rank's experts are at work.
  std::string busiest_link;
  double busiest_link_share = 0;
  int busiest_rank = 0;
  double busiest_rank_share = 0;
  double row_bytes = 0, result_bytes = 0;  // over links, all layers and coordinators

  // What most of the step is: "link node0.gpu0 > node0.nvswitch (nvlink4)", "starting exchanges",
  // "experts on rank 3", "attention over the context", "projections", ...
  std::string bottleneck() const;
  double tokens_per_s(const SimulatorInput& input) const;
};

// Cost: O(L R) for each coordinator; symmetric O(links R) for each layer that differs from the one
// before.
SimulatedStep simulate_step(const SimulatorInput& input);

// Uniform choices; or of each layer a shuffle of p_e ~ 1 / rank^skew, sum K, none above 1. [L][E].
std::vector<std::vector<double>> uniform_shares(const ModelShape& shape);
std::vector<std::vector<double>> zipf_shares(const ModelShape& shape, double skew, uint64_t seed);
std::vector<std::vector<double>> loaded_shares(const ModelShape& shape, const ExpertLoads& loads);

// What a rank's memory lacks: slots, the coordinator's weights where it is one, keys and values of
// its sequences; on a GPU also NCCL's buffers and 4 GB for activations, messages and the context.
// A GPU's or its share of a NUMA node's. Negative: what is left.
struct MemoryGap {
  int rank = 0;
  double need_bytes = 0, have_bytes = 0;
  double missing() const { return need_bytes - have_bytes; }
};
// [R]; without a placement (null), of everything but experts. kv_positions: of each coordinator.
std::vector<MemoryGap> memory_gaps(const SimulatorInput& input, double kv_positions);
// Of the rank that lacks most (or has least left).
MemoryGap largest_gap(const SimulatorInput& input, double kv_positions);

// Experts in order in equal parts, or dealt out one by one, for the ranks that do not coordinate;
// for all where every rank coordinates.
Placement spread_placement(const ModelShape& shape, const RankMap& ranks, bool is_dealt_out);

}  // namespace colibri
