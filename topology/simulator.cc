#include "topology/simulator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "topology/simulator_parts.h"

namespace colibri {
namespace {

std::vector<double> shares_of(const SimulatorInput& input, int layer) {
  if (!input.shares.empty()) return input.shares[static_cast<size_t>(layer)];
  return expert_shares(nullptr, *input.shape, layer);
}

}  // namespace

SimulatedStep simulate_step(const SimulatorInput& input) {
  const auto coordinators = static_cast<int>(input.ranks->coordinators().size());
  if (input.placement->num_ranks() != input.ranks->num_ranks()) {
    fail(ErrorKind::kInput, "the placement is for ", input.placement->num_ranks(),
         " ranks, the step for ", input.ranks->num_ranks());
  }
  if (coordinators > 1 && coordinators == input.ranks->num_ranks()) {
    return simulate_symmetric(input);
  }
  return simulate_events(input);
}

namespace {

double touched_factor(const SimulatorInput& input, int layer) {
  return input.touched_factor.empty() ? 1 : input.touched_factor[static_cast<size_t>(layer)];
}

void scale_touched(const SimulatorInput& input, int layer, LayerFigures& figures) {
  for (size_t rank = 0; rank < figures.touched.size(); ++rank) {
    const auto slots =
        static_cast<double>(input.placement->experts_of(layer, static_cast<int>(rank)).size());
    figures.touched[rank] = std::min(slots, figures.touched[rank] * touched_factor(input, layer));
  }
}

}  // namespace

FiguresOfLayers::FiguresOfLayers(const SimulatorInput& input, double num_tokens) {
  int last = -1;
  for (int layer = 0; layer < input.shape->num_layers; ++layer) {
    if (!input.shape->layer_is_moe[static_cast<size_t>(layer)]) {
      index_.push_back(-1);
      continue;
    }
    if (last < 0 || !are_alike(input, layer, last)) {
      distinct_.push_back(
          layer_figures(*input.placement, layer, shares_of(input, layer), num_tokens));
      scale_touched(input, layer, distinct_.back());
    }
    last = layer;
    index_.push_back(static_cast<int>(distinct_.size()) - 1);
  }
}

Travelling travelling(const SimulatorInput& input, const LayerFigures& figures, int coordinator,
                      double part) {
  Travelling travels{figures.rows, input.adds_results ? figures.rows : figures.pairs};
  for (auto* counts : {&travels.rows, &travels.results}) {
    for (double& count : *counts) count *= part;
  }
  if (input.exchange != ExchangeMode::kFixedSize || !input.ranks->is_gpu(coordinator)) {
    return travels;
  }
  double most = 0;
  for (int rank = 0; rank < input.ranks->num_ranks(); ++rank) {
    if (rank != coordinator) most = std::max(most, travels.results[static_cast<size_t>(rank)]);
  }
  const double tokens = input.size.num_tokens;
  const double choices = input.adds_results ? 1 : input.shape->top_k;
  travels.rows.assign(travels.rows.size(), tokens);
  travels.results.assign(travels.rows.size(), results_room(tokens, choices, most));
  return travels;
}

double counts_us(const SimulatorInput& input, int coordinator) {
  const bool waits =
      input.exchange == ExchangeMode::kHostCounts && input.ranks->is_gpu(coordinator);
  return waits ? input.ranks->counts_us(coordinator) : 0;
}

bool FiguresOfLayers::are_alike(const SimulatorInput& input, int a, int b) {
  if (touched_factor(input, a) != touched_factor(input, b)) return false;
  if (!input.shares.empty() &&
      input.shares[static_cast<size_t>(a)] != input.shares[static_cast<size_t>(b)]) {
    return false;
  }
  for (int rank = 0; rank < input.placement->num_ranks(); ++rank) {
    const auto x = input.placement->experts_of(a, rank), y = input.placement->experts_of(b, rank);
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  }
  return true;
}

std::vector<double> cached_shares(const SimulatorInput& input, const FiguresOfLayers& figures) {
  std::vector<double> bytes(static_cast<size_t>(input.ranks->num_ranks()));
  for (int layer = 0; layer < input.shape->num_layers; ++layer) {
    if (figures.index(layer) < 0) continue;
    const LayerFigures& of_layer = figures.at(figures.index(layer));
    for (size_t rank = 0; rank < bytes.size(); ++rank) {
      bytes[rank] += of_layer.touched[rank] * static_cast<double>(input.shape->expert_bytes);
    }
  }
  for (const int rank : input.ranks->coordinators()) {
    bytes[static_cast<size_t>(rank)] += own_step_bytes(*input.shape, input.size);
  }
  return input.ranks->cached_shares(bytes);
}

double SimulatedStep::tokens_per_s(const SimulatorInput& input) const {
  const auto coordinators = static_cast<double>(input.ranks->coordinators().size());
  return step_us > 0 ? 1e6 * input.size.num_tokens * coordinators / step_us : 0;
}

std::string SimulatedStep::bottleneck() const {
  const double bytes_us = dispatch_us + combine_us - start_us;
  const std::string rank = " on rank " + std::to_string(busiest_rank);
  const std::array<std::pair<double, std::string>, 8> parts{
      {{dense_us, "projections"},
       {context_us, "attention over the context"},
       {attention_us - dense_us - context_us, "norms and router"},
       {own_us, "the coordinator's own experts"},
       {bytes_us, busiest_link.empty() ? "exchange" : "link " + busiest_link},
       {start_us, "starting exchanges"},
       {wait_us + experts_us, "experts" + rank},
       {head_us, "head"}}};
  return std::max_element(parts.begin(), parts.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

Placement spread_placement(const ModelShape& shape, const RankMap& ranks, bool is_dealt_out) {
  std::vector<size_t> holders;
  const std::vector<int>& coordinators = ranks.coordinators();
  const bool all_hold = static_cast<int>(coordinators.size()) == ranks.num_ranks();
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    const bool coordinates = std::binary_search(coordinators.begin(), coordinators.end(), rank);
    if (all_hold || !coordinates) holders.push_back(static_cast<size_t>(rank));
  }
  ExpertLists lists(static_cast<size_t>(shape.num_layers));
  const auto experts = static_cast<size_t>(shape.num_experts);
  for (size_t layer = 0; layer < lists.size(); ++layer) {
    lists[layer].resize(static_cast<size_t>(ranks.num_ranks()));
    if (!shape.layer_is_moe[layer]) continue;
    for (size_t expert = 0; expert < experts; ++expert) {
      const size_t holder =
          is_dealt_out ? expert % holders.size() : expert * holders.size() / experts;
      lists[layer][holders[holder]].push_back(static_cast<int32_t>(expert));
    }
  }
  return {shape, ranks.num_ranks(), lists};
}

}  // namespace colibri
