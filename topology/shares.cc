#include <algorithm>
#include <cmath>
#include <numeric>

#include "topology/gpu_memory_plan.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

// Activations, messages, logits and the CUDA context, as docs/multi-gpu.md counts them.
constexpr double kGpuOtherBytes = 4e9;

// SplitMix64: the same numbers on every machine.
uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Scales weights to the sum `top_k`; what would pass 1 stays there and the rest takes more.
std::vector<double> with_sum(std::vector<double> weights, double top_k) {
  std::vector<bool> is_full(weights.size());
  double full = 0;
  for (;;) {
    double sum = 0;
    for (size_t e = 0; e < weights.size(); ++e) sum += is_full[e] ? 0 : weights[e];
    const double scale = sum > 0 ? (top_k - full) / sum : 0;
    bool has_more = false;
    for (size_t e = 0; e < weights.size(); ++e) {
      if (is_full[e] || weights[e] * scale < 1) continue;
      is_full[e] = has_more = true;
      weights[e] = 1;
      full += 1;
    }
    if (has_more) continue;
    for (size_t e = 0; e < weights.size(); ++e) weights[e] *= is_full[e] ? 1 : scale;
    return weights;
  }
}

template <class Make>
std::vector<std::vector<double>> for_layers(const ModelShape& shape, const Make& make) {
  std::vector<std::vector<double>> shares(static_cast<size_t>(shape.num_layers));
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    if (shape.layer_is_moe[at]) shares[at] = make(layer);
  }
  return shares;
}

}  // namespace

std::vector<std::vector<double>> uniform_shares(const ModelShape& shape) {
  return for_layers(shape, [&](int layer) { return expert_shares(nullptr, shape, layer); });
}

std::vector<std::vector<double>> loaded_shares(const ModelShape& shape, const ExpertLoads& loads) {
  return for_layers(shape, [&](int layer) { return expert_shares(&loads, shape, layer); });
}

std::vector<std::vector<double>> zipf_shares(const ModelShape& shape, double skew, uint64_t seed) {
  uint64_t state = seed;
  return for_layers(shape, [&](int) {
    const auto experts = static_cast<size_t>(shape.num_experts);
    std::vector<double> weights(experts);
    for (size_t e = 0; e < experts; ++e) {
      weights[e] = std::pow(static_cast<double>(e + 1), -skew);
    }
    for (size_t e = experts - 1; e > 0; --e) {
      std::swap(weights[e], weights[next_random(state) % (e + 1)]);
    }
    return with_sum(std::move(weights), shape.top_k);
  });
}

MemoryGap largest_gap(const SimulatorInput& input, double kv_positions) {
  const RankMap& ranks = *input.ranks;
  const ModelShape& shape = *input.shape;
  std::vector<int> sharers(ranks.cluster().parts.size());
  const auto part_index = [&](int rank) {
    return &ranks.part(rank) - ranks.cluster().parts.data();
  };
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    ++sharers[static_cast<size_t>(part_index(rank))];
  }
  MemoryGap worst{.need_bytes = -1e300};
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    MemoryGap gap{.rank = rank};
    gap.need_bytes = static_cast<double>(input.placement->num_slots(rank)) *
                     static_cast<double>(shape.expert_bytes);
    const auto& coordinators = ranks.coordinators();
    if (ranks.is_gpu(rank)) {
      gap.need_bytes += kGpuOtherBytes + static_cast<double>(nccl_buffer_bytes(ranks.num_ranks()));
    }
    if (std::find(coordinators.begin(), coordinators.end(), rank) != coordinators.end()) {
      gap.need_bytes += static_cast<double>(shape.coordinator_weight_bytes) +
                        kv_positions * static_cast<double>(shape.kv_bytes_per_token);
    }
    const ClusterPart& part = ranks.part(rank);
    gap.have_bytes = static_cast<double>(ranks.is_gpu(rank) ? ranks.device(rank).memory_bytes
                                                            : part.memory_bytes) /
                     sharers[static_cast<size_t>(part_index(rank))];
    if (gap.missing() > worst.missing()) worst = gap;
  }
  return worst;
}

}  // namespace colibri
