#include "tests/topology/eplb.h"

#include <algorithm>
#include <numeric>

namespace colibri {
namespace {

using Items = std::vector<std::vector<size_t>>;  // of each bin

// As many items in every bin, the heaviest first, each into the lightest bin that is not full.
Items balanced_packing(const std::vector<double>& weights, size_t num_bins) {
  const size_t each = weights.size() / num_bins;
  Items bins(num_bins);
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (each == 1) {
    for (const size_t item : order) bins[item].push_back(item);
    return bins;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  std::vector<double> sums(num_bins, 0);
  for (const size_t item : order) {
    size_t best = num_bins;
    for (size_t bin = 0; bin < num_bins; ++bin) {
      if (bins[bin].size() < each && (best == num_bins || sums[bin] < sums[best])) best = bin;
    }
    bins[best].push_back(item);
    sums[best] += weights[item];
  }
  return bins;
}

// The expert of each slot, and each expert's number of copies.
struct Replicas {
  std::vector<size_t> expert_of_slot;
  std::vector<double> copies;
};

Replicas replicate(const std::vector<double>& weights, size_t num_slots) {
  Replicas replicas;
  replicas.copies.assign(weights.size(), 1);
  replicas.expert_of_slot.resize(weights.size());
  std::iota(replicas.expert_of_slot.begin(), replicas.expert_of_slot.end(), size_t{0});
  while (replicas.expert_of_slot.size() < num_slots) {
    size_t most = 0;
    for (size_t e = 1; e < weights.size(); ++e) {
      if (weights[e] / replicas.copies[e] > weights[most] / replicas.copies[most]) most = e;
    }
    replicas.expert_of_slot.push_back(most);
    ++replicas.copies[most];
  }
  return replicas;
}

}  // namespace

std::vector<std::vector<int32_t>> eplb(const std::vector<double>& loads, const EplbSizes& sizes) {
  const bool is_hierarchical = sizes.num_groups % sizes.num_nodes == 0;
  const auto num_nodes = static_cast<size_t>(is_hierarchical ? sizes.num_nodes : 1);
  const auto num_groups = static_cast<size_t>(is_hierarchical ? sizes.num_groups : 1);
  const size_t group_size = loads.size() / num_groups;
  std::vector<double> of_group(num_groups, 0);
  for (size_t e = 0; e < loads.size(); ++e) of_group[e / group_size] += loads[e];
  std::vector<std::vector<int32_t>> gpus;
  for (const auto& groups : balanced_packing(of_group, num_nodes)) {
    std::vector<size_t> experts;
    std::vector<double> weights;
    for (const size_t group : groups) {
      for (size_t i = 0; i < group_size; ++i) {
        experts.push_back(group * group_size + i);
        weights.push_back(loads[experts.back()]);
      }
    }
    const Replicas replicas = replicate(weights, static_cast<size_t>(sizes.num_slots) / num_nodes);
    std::vector<double> of_slot;
    for (const size_t e : replicas.expert_of_slot)
      of_slot.push_back(weights[e] / replicas.copies[e]);
    for (const auto& slots :
         balanced_packing(of_slot, static_cast<size_t>(sizes.num_gpus) / num_nodes)) {
      gpus.emplace_back();
      for (const size_t slot : slots) {
        gpus.back().push_back(static_cast<int32_t>(experts[replicas.expert_of_slot[slot]]));
      }
    }
  }
  return gpus;
}

}  // namespace colibri
