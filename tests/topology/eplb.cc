#include "tests/topology/eplb.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace colibri {
namespace {

// bin of each item: each bin takes items / bins of them.
std::vector<int> pack(const std::vector<double>& weight, int bins) {
  const int each = static_cast<int>(weight.size()) / bins;
  std::vector<int> order(weight.size()), bin_of(weight.size());
  std::iota(order.begin(), order.end(), 0);
  if (each == 1) return order;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return weight[static_cast<size_t>(a)] > weight[static_cast<size_t>(b)];
  });
  std::vector<double> sum(static_cast<size_t>(bins));
  std::vector<int> count(sum.size());
  for (const int item : order) {
    int best = -1;
    for (int bin = 0; bin < bins; ++bin) {
      if (count[static_cast<size_t>(bin)] == each) continue;
      if (best < 0 || sum[static_cast<size_t>(bin)] < sum[static_cast<size_t>(best)]) best = bin;
    }
    bin_of[static_cast<size_t>(item)] = best;
    sum[static_cast<size_t>(best)] += weight[static_cast<size_t>(item)];
    ++count[static_cast<size_t>(best)];
  }
  return bin_of;
}

struct Copies {
  std::vector<int> expert_of_slot, count;
};

Copies replicate(const std::vector<double>& load, int num_slots) {
  Copies copies{.expert_of_slot = std::vector<int>(load.size()),
                .count = std::vector<int>(load.size(), 1)};
  std::iota(copies.expert_of_slot.begin(), copies.expert_of_slot.end(), 0);
  while (static_cast<int>(copies.expert_of_slot.size()) < num_slots) {
    size_t most = 0;
    for (size_t e = 1; e < load.size(); ++e) {
      if (load[e] / copies.count[e] > load[most] / copies.count[most]) most = e;
    }
    copies.expert_of_slot.push_back(static_cast<int>(most));
    ++copies.count[most];
  }
  return copies;
}

}  // namespace

EplbPlan eplb(const std::vector<double>& load, const EplbSizes& given) {
  EplbSizes sizes = given;
  if (sizes.num_groups % sizes.num_nodes != 0) sizes.num_groups = sizes.num_nodes = 1;
  const size_t group_size = load.size() / static_cast<size_t>(sizes.num_groups);
  std::vector<double> group_load(static_cast<size_t>(sizes.num_groups));
  for (size_t e = 0; e < load.size(); ++e) group_load[e / group_size] += load[e];
  const std::vector<int> node_of = pack(group_load, sizes.num_nodes);
  EplbPlan plan;
  const int gpus = sizes.num_gpus / sizes.num_nodes;
  double most = 0, total = 0;
  for (int node = 0; node < sizes.num_nodes; ++node) {
    std::vector<int> experts;
    std::vector<double> own;
    for (size_t e = 0; e < load.size(); ++e) {
      if (node_of[e / group_size] != node) continue;
      experts.push_back(static_cast<int>(e));
      own.push_back(load[e]);
    }
    const Copies copies = replicate(own, sizes.num_slots / sizes.num_nodes);
    std::vector<double> weight;
    for (const int e : copies.expert_of_slot) {
      weight.push_back(own[static_cast<size_t>(e)] / copies.count[static_cast<size_t>(e)]);
    }
    const std::vector<int> gpu_of = pack(weight, gpus);
    std::vector<std::vector<int>> lists(static_cast<size_t>(gpus));
    std::vector<double> sum(lists.size());
    for (size_t slot = 0; slot < weight.size(); ++slot) {
      const auto gpu = static_cast<size_t>(gpu_of[slot]);
      const int expert = experts[static_cast<size_t>(copies.expert_of_slot[slot])];
      plan.num_duplicates +=
          static_cast<int>(std::count(lists[gpu].begin(), lists[gpu].end(), expert));
      lists[gpu].push_back(expert);
      sum[gpu] += weight[slot];
    }
    for (const double s : sum) {
      most = std::max(most, s);
      total += s;
    }
    plan.experts_of_gpu.insert(plan.experts_of_gpu.end(), lists.begin(), lists.end());
  }
  plan.balancedness = total / sizes.num_gpus / most;
  return plan;
}

std::vector<double> eplb_zipf(int num_experts, double skew, uint64_t seed) {
  std::vector<double> load;
  double sum = 0;
  for (int e = 0; e < num_experts; ++e) {
    load.push_back(std::pow(e + 1, -skew));
    sum += load.back();
  }
  uint64_t state = 2 * seed + 1;
  for (size_t e = load.size() - 1; e > 0; --e) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(load[e], load[(state >> 33) % (e + 1)]);
  }
  for (double& value : load) value *= 8 / sum;
  return load;
}

}  // namespace colibri
