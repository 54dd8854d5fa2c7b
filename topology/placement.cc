#include "topology/placement.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace colibri {
namespace {

void check_lists_of_layer(const ModelShape& shape, const ExpertLists& lists, int layer) {
  std::vector<int> num_copies(static_cast<size_t>(shape.num_experts), 0);
  const auto& ranks = lists[static_cast<size_t>(layer)];
  const bool is_moe = shape.layer_is_moe[static_cast<size_t>(layer)];
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!is_moe && !ranks[rank].empty()) {
      fail(ErrorKind::kInput, "placement: layer ", layer, " is dense, but rank ", rank, " has ",
           ranks[rank].size(), " experts there, want none");
    }
    std::vector<bool> seen(static_cast<size_t>(shape.num_experts), false);
    for (const int32_t expert : ranks[rank]) {
      if (expert < 0 || expert >= shape.num_experts) {
        fail(ErrorKind::kInput, "placement: layer ", layer, " rank ", rank, " has expert ", expert,
             ", want [0, ", shape.num_experts, ")");
      }
      if (seen[static_cast<size_t>(expert)]) {
        fail(ErrorKind::kInput, "placement: layer ", layer, " rank ", rank, " has expert ", expert,
             " twice, want replicas on different ranks");
      }
      seen[static_cast<size_t>(expert)] = true;
      ++num_copies[static_cast<size_t>(expert)];
    }
  }
  const auto missing = std::find(num_copies.begin(), num_copies.end(), 0);
  if (is_moe && missing != num_copies.end()) {
    fail(ErrorKind::kInput, "placement: layer ", layer, " expert ", missing - num_copies.begin(),
         " has no slot on any of ", ranks.size(), " ranks, want one at least");
  }
}

void check_lists(const ModelShape& shape, int num_ranks, const ExpertLists& lists) {
  check(shape.layer_is_moe.size() == static_cast<size_t>(shape.num_layers), "ModelShape has ",
        shape.num_layers, " layers and ", shape.layer_is_moe.size(), " kinds");
  if (num_ranks < 1) fail(ErrorKind::kInput, "placement: ", num_ranks, " ranks, want 1 at least");
  if (lists.size() != static_cast<size_t>(shape.num_layers)) {
    fail(ErrorKind::kInput, "placement: ", lists.size(), " layers, want ", shape.num_layers);
  }
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const size_t got = lists[static_cast<size_t>(layer)].size();
    if (got != static_cast<size_t>(num_ranks)) {
      fail(ErrorKind::kInput, "placement: layer ", layer, " lists ", got, " ranks, want ",
           num_ranks);
    }
    check_lists_of_layer(shape, lists, layer);
  }
}

}  // namespace

Placement::Placement(const ModelShape& shape, int num_ranks, const ExpertLists& lists)
    : num_ranks_(num_ranks), num_layers_(shape.num_layers), num_experts_(shape.num_experts) {
  check_lists(shape, num_ranks, lists);
  expert_begin_.push_back(0);
  for (const auto& ranks : lists) {
    for (const auto& experts : ranks) {
      experts_.insert(experts_.end(), experts.begin(), experts.end());
      expert_begin_.push_back(experts_.size());
    }
  }
  index_slots();
}

// Ranks ascend within a layer, so the slots of an expert do too: a counting sort by expert.
void Placement::index_slots() {
  slots_.resize(experts_.size());
  slot_begin_.assign(1, 0);
  for (int layer = 0; layer < num_layers_; ++layer) {
    std::vector<size_t> next(static_cast<size_t>(num_experts_), 0);
    for (const int32_t expert : lists_of_layer(layer)) ++next[static_cast<size_t>(expert)];
    size_t at = slot_begin_.back();
    for (size_t& count : next) {
      const size_t begin = at;
      at += count;
      count = begin;
      slot_begin_.push_back(at);
    }
    for (int rank = 0; rank < num_ranks_; ++rank) {
      int slot = 0;
      for (const int32_t expert : experts_of(layer, rank)) {
        slots_[next[static_cast<size_t>(expert)]++] = {rank, slot++};
      }
    }
  }
}

std::span<const int32_t> Placement::lists_of_layer(int layer) const {
  const size_t first = static_cast<size_t>(layer) * static_cast<size_t>(num_ranks_);
  return {experts_.data() + expert_begin_[first],
          experts_.data() + expert_begin_[first + static_cast<size_t>(num_ranks_)]};
}

int64_t Placement::num_slots(int rank) const {
  int64_t count = 0;
  for (int layer = 0; layer < num_layers_; ++layer) {
    count += static_cast<int64_t>(experts_of(layer, rank).size());
  }
  return count;
}

void check_capacity(const Placement& placement, std::span<const int64_t> capacity_slots) {
  if (capacity_slots.empty()) return;
  check(capacity_slots.size() == static_cast<size_t>(placement.num_ranks()), "capacities of ",
        capacity_slots.size(), " ranks for a placement on ", placement.num_ranks());
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    const int64_t room = capacity_slots[static_cast<size_t>(rank)];
    const int64_t need = placement.num_slots(rank);
    if (need > room) {
      fail(ErrorKind::kEnvironment, "placement: rank ", rank, " is given ", need,
           " experts (all layers), its memory holds ", room,
           "; move experts to other ranks or use more ranks");
    }
  }
}

std::string unasked_text(const Placement& placement, int coordinator_experts) {
  if (placement.num_ranks() == 1) return "";
  int64_t asked = 0, all = 0;
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    if (!placement.has_experts(layer)) continue;
    asked += coordinator_experts;
    all += placement.num_experts();
  }
  const int64_t held = placement.num_slots(0);
  if (held == asked) return "";
  std::ostringstream text;
  if (held > asked) {
    text << "the other ranks cannot hold all experts: rank 0 holds " << held << " of " << all
         << " (all layers)";
  } else {
    text << "rank 0 has no room for --coordinator-experts " << coordinator_experts << ": it holds "
         << held << " of " << all << " (all layers)";
  }
  text << "; " << describe(placement);
  return text.str();
}

std::string describe(const Placement& placement) {
  struct Range {
    size_t low, high;
    bool operator==(const Range&) const = default;
  };
  const auto range_of = [&](int rank) {
    Range range{SIZE_MAX, 0};
    for (int layer = 0; layer < placement.num_layers(); ++layer) {
      if (!placement.has_experts(layer)) continue;
      const size_t count = placement.experts_of(layer, rank).size();
      range = {std::min(range.low, count), std::max(range.high, count)};
    }
    return range.low == SIZE_MAX ? Range{0, 0} : range;
  };
  std::ostringstream text;
  text << "experts a layer:";
  for (int first = 0; first < placement.num_ranks();) {
    const Range range = range_of(first);
    int last = first;
    while (last + 1 < placement.num_ranks() && range_of(last + 1) == range) ++last;
    text << (first > 0 ? ", " : " ") << (last > first ? "ranks " : "rank ") << first;
    if (last > first) text << '-' << last;
    text << ' ';
    if (range.high == 0) {
      text << "none";
    } else if (range.low == range.high) {
      text << range.low;
    } else {
      text << range.low << '-' << range.high;
    }
    first = last + 1;
  }
  return text.str();
}

}  // namespace colibri
