// One step stepped through in time: coordinators, messages over shared links, ranks that compute
// what has arrived. Deterministic; nothing is drawn, every count is an expectation.
//
// A coordinator runs, layer by layer: its projections, attention and norms; it posts a message to
// every rank that it needs, and runs the shared expert and its own slots meanwhile; a rank computes
// each message by itself in the order of arrival and sends results back; when the last has come
// they are added and the next layer begins. After the last layer: logits and the choice of tokens.
//
// Links: a message holds each link of its way for bytes / gbps, its head going on after the link's
// latency (cut-through); messages queue at a link in the order in which they are posted, by rank.
// An exchange that takes `start` without a byte and `link` by this takes DeviceSpec's
// exchange_total_us(start, link (1 + tail / peers)).
//
// Symmetric (every rank coordinates its share): all ranks do the same at the same time, so bytes
// are added up on each link and the busiest one counts, and a rank computes the rows of all
// coordinators at once. With fewer coordinators each message is computed alone: experts that
// several coordinators want are read for each of them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "topology/loads.h"
#include "topology/placement.h"
#include "topology/step_cost.h"

namespace colibri {

enum class StepStage : uint8_t {
  kDense,
  kAttention,
  kElementwise,
  kOwnExperts,  // shared expert and own slots, where they take longer than all messages
  kDispatch,
  kQueue,  // rows wait for their rank
  kExperts,
  kCombine,  // results under way, and added
  kHead,
  kPicking,
};
inline constexpr size_t kNumStepStages = 10;
const char* to_string(StepStage stage);

// Borrowed: all of it outlives the call.
struct StepRun {
  const ModelShape& shape;
  const StepRanks& ranks;
  const Placement& placement;          // of as many ranks
  const ExpertLoads* loads = nullptr;  // null: uniform
  StepSize step;
  StepFormats formats;
  bool adds_results = false;  // --combine reduced: one result a row
};

struct SimulatedStep {
  double total_us = 0;
  // Along the chain of events that the end of the step waited for; they add up to total_us.
  std::array<double, kNumStepStages> stage_us = {};
  std::string bottleneck;    // what most of that time is, in words
  std::string busiest_link;  // with its direction; "" where nothing travels
  double busiest_link_us = 0;
  int slowest_rank = 0;  // that was waited for most often

  double us(StepStage stage) const { return stage_us[static_cast<size_t>(stage)]; }
};

// Cost: one coordinator and R ranks, O(L R) messages; N coordinators, N times that; symmetric,
// O(R^2) once and O(links R) for each layer that differs from the one before.
SimulatedStep simulate_step(const StepRun& run);

// One rank's memory against what it would hold: experts; of a coordinator also the other weights,
// and the KV cache of its share. 392 MB for NCCL and 4 GB for activations, messages and the context
// on a GPU (docs/multi-gpu.md). Ranks of one part share its memory.
struct PartMemory {
  std::string part;
  double need_bytes = 0, have_bytes = 0;
  bool fits() const { return need_bytes <= have_bytes; }
};
// Of every part that runs ranks, in the order of the ranks.
std::vector<PartMemory> step_memory(const StepRun& run);

// How the step's time changes: -0.1 is ten percent less.
struct StepChange {
  std::string what;
  double change = 0;
};
// Every kind of link between the ranks at twice its rate, one after the other.
std::vector<StepChange> link_sensitivity(const StepRun& run);

// Experts in order, equal parts (or dealt out one by one) for the ranks that hold them: all ranks
// where all coordinate, or where one rank is alone, else those that do not.
Placement spread_placement(const ModelShape& shape, const StepRanks& ranks, bool is_round_robin);

}  // namespace colibri
