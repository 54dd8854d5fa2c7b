#include "coordinator/route_override.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/mix.h"

namespace colibri {
namespace {

// In (0, 1).
double unit(uint64_t hash) { return (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53; }

class RandomRouting : public RouteOverride {
 public:
  RandomRouting(const ModelConfig& config, double skew, uint64_t seed)
      : top_k_(config.top_k), seed_(seed), keys_(static_cast<size_t>(config.num_experts)) {
    const auto num_experts = static_cast<size_t>(config.num_experts);
    for (int layer = 0; layer < config.num_layers; ++layer) {
      std::vector<size_t> rank(num_experts);
      std::iota(rank.begin(), rank.end(), 0);
      for (size_t i = num_experts; i > 1; --i) {
        std::swap(rank[i - 1], rank[mix(seed ^ mix(static_cast<uint64_t>(layer) << 32 | i)) % i]);
      }
      std::vector<double> popularity(num_experts);
      for (size_t e = 0; e < num_experts; ++e) {
        popularity[e] = std::pow(static_cast<double>(rank[e]) + 1, -skew);
      }
      popularity_.push_back(std::move(popularity));
    }
  }

  void choose(int layer, const Batch& batch, std::span<int32_t> expert_ids,
              std::span<float> weights) override {
    const auto k = static_cast<size_t>(top_k_);
    std::fill(weights.begin(), weights.end(), 1.0f / static_cast<float>(top_k_));
    for (size_t t = 0; t < batch.ids.size(); ++t) {
      const auto sequence = static_cast<uint64_t>(batch.sequences[t]);
      const auto position = static_cast<uint64_t>(batch.positions[t]);
      const uint64_t token =
          mix(seed_ ^ mix(sequence << 32 | position)) + static_cast<uint64_t>(layer);
      draw(popularity_[static_cast<size_t>(layer)], mix(token), expert_ids.subspan(t * k, k));
    }
  }

 private:
  // Sampling without replacement in proportion to weights: the K largest of log(u) / weight
  // (Efraimidis and Spirakis, 2006).
  void draw(const std::vector<double>& popularity, uint64_t token, std::span<int32_t> ids) {
    for (size_t e = 0; e < keys_.size(); ++e) {
      keys_[e] = {std::log(unit(mix(token + e))) / popularity[e], static_cast<int32_t>(e)};
    }
    const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(ids.size());
    std::partial_sort(keys_.begin(), end, keys_.end(), std::greater<>());
    std::transform(keys_.begin(), end, ids.begin(), [](const auto& key) { return key.second; });
    std::sort(ids.begin(), ids.end());
  }

  int top_k_;
  uint64_t seed_;
  std::vector<std::vector<double>> popularity_;  // [L][E]
  std::vector<std::pair<double, int32_t>> keys_;
};

}  // namespace

std::unique_ptr<RouteOverride> make_random_routing(const ModelConfig& config, double skew,
                                                   uint64_t seed) {
  return std::make_unique<RandomRouting>(config, skew, seed);
}

}  // namespace colibri
