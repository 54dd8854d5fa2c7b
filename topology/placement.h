// Which rank holds which expert: per MoE layer, each expert has one slot or more, each slot lies on
// one rank. A slot is a number in its rank's list of that layer, counted from 0. Decided once,
// before any weight is read; the dispatch plan and the workers only look up.
//
// The file form is docs/placement.md; reading and writing it is topology/placement_file.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/model_shape.h"

namespace colibri {

// One physical copy of an expert.
struct SlotRef {
  int rank = 0;
  int slot = 0;  // in experts_of(layer, rank)
  friend bool operator==(const SlotRef&, const SlotRef&) = default;
};

// The experts of each slot: [L][R][slots of that rank in that layer]. Dense layers have [R] empty
// lists.
using ExpertLists = std::vector<std::vector<std::vector<int32_t>>>;

// Who may hold experts. With one rank it holds all. With more, rank 0 holds `coordinator_experts`
// of every MoE layer, and the others share the rest as evenly as their capacity allows; what they
// cannot hold goes to rank 0. More ranks than experts: some hold none.
struct PlacementOptions {
  int num_ranks = 1;
  int coordinator_experts = 0;
  // [R] slots that each rank's memory can hold, all layers together; empty: no limit. Slots are
  // spread over the layers so that all fit whenever the total does.
  std::vector<int64_t> capacity_slots = {};
};

// Immutable after it is made; reading is thread safe.
class Placement {
 public:
  // Takes the lists as they are; slots keep the order of the lists.
  // Errors: kInput naming layer, rank and expert for a list of the wrong length, an expert outside
  // [0, E), an expert twice on one rank, an expert without a slot, or slots in a dense layer.
  Placement(const ModelShape& shape, int num_ranks, const ExpertLists& lists);

  int num_ranks() const { return num_ranks_; }      // R
  int num_layers() const { return num_layers_; }    // L, dense layers included
  int num_experts() const { return num_experts_; }  // E
  bool has_experts(int layer) const { return !lists_of_layer(layer).empty(); }

  // All slots of an expert, ascending by rank; at least one in an MoE layer, none in a dense one.
  // O(1).
  std::span<const SlotRef> slots_of(int layer, int expert) const {
    const size_t at = static_cast<size_t>(layer) * static_cast<size_t>(num_experts_) +
                      static_cast<size_t>(expert);
    return {slots_.data() + slot_begin_[at], slots_.data() + slot_begin_[at + 1]};
  }
  // The expert of each slot of `rank` in `layer`. O(1).
  std::span<const int32_t> experts_of(int layer, int rank) const {
    const size_t at =
        static_cast<size_t>(layer) * static_cast<size_t>(num_ranks_) + static_cast<size_t>(rank);
    return {experts_.data() + expert_begin_[at], experts_.data() + expert_begin_[at + 1]};
  }
  // Slots of `rank` in all layers together: its experts' memory is this times expert_bytes.
  int64_t num_slots(int rank) const;

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  std::span<const int32_t> lists_of_layer(int layer) const;
  void index_slots();

  int num_ranks_ = 0, num_layers_ = 0, num_experts_ = 0;
  std::vector<int32_t> experts_;      // lists one after the other, layer by layer
  std::vector<size_t> expert_begin_;  // [L * R + 1] into experts_
  std::vector<SlotRef> slots_;
  std::vector<size_t> slot_begin_;  // [L * E + 1] into slots_
};

// Experts in ascending order, a contiguous part for each rank. Example: E = 5, R = 3 gives rank 1
// experts 0 1 2, rank 2 experts 3 4.
//
// These three fail with kInput for num_ranks < 1 or coordinator_experts outside [0, E], and with
// kEnvironment naming need and room when all ranks together cannot hold every expert.
Placement contiguous_placement(const ModelShape& shape, const PlacementOptions& options);

// Experts dealt out one by one: E = 5, R = 3 gives rank 1 experts 0 2 4, rank 2 experts 1 3.
Placement round_robin_placement(const ModelShape& shape, const PlacementOptions& options);

// As many experts a rank as above, drawn anew for each layer, the same on every machine for one
// seed; plus `num_replicas` more slots a layer for experts drawn at random, on ranks that hold
// experts of that layer. kInput when there is no room for that many replicas.
Placement random_placement(const ModelShape& shape, const PlacementOptions& options, uint64_t seed,
                           int num_replicas = 0);

// [MoE layers][R] slots that each rank can have in each layer when its capacity is spread so that
// layers differ by one slot at most and everything fits whenever the total does; E without limit.
std::vector<std::vector<int>> layer_rooms(const ModelShape& shape, int num_ranks,
                                          std::span<const int64_t> capacity_slots);

// Fails with kEnvironment naming the first rank whose slots exceed its capacity. Empty: no limit.
void check_capacity(const Placement& placement, std::span<const int64_t> capacity_slots);

// What nobody asked for, in one line for people: rank 0 of several holds more than
// `coordinator_experts` of each layer, because the others cannot hold the rest, or fewer, because
// they do not fit. "" when neither is so.
std::string unasked_text(const Placement& placement, int coordinator_experts);

// One line for people: "experts a layer: rank 0 none, ranks 1-2 8". Counts that differ between
// layers are ranges.
std::string describe(const Placement& placement);

}  // namespace colibri
