#include "coordinator/load_stats.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace colibri {

std::vector<std::string> LoadStats::collapsed_layers(uint64_t min_tokens) const {
  std::vector<std::string> warnings;
  const auto k = static_cast<size_t>(top_k_), num_experts = static_cast<size_t>(num_experts_);
  if (num_experts <= 2 * k) return warnings;
  for (size_t layer = 0; layer < counts_.size() / num_experts; ++layer) {
    const auto counts = of_layer(static_cast<int>(layer));
    const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    if (total < min_tokens * k) continue;
    std::vector<uint64_t> sorted(counts.begin(), counts.end());
    std::partial_sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k), sorted.end(),
                      std::greater<>());
    const uint64_t busiest = std::accumulate(
        sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k), uint64_t{0});
    if (busiest * 100 > total * 95) {
      warnings.push_back("layer " + std::to_string(layer) + " sends " +
                         std::to_string(busiest * 100 / total) + " % of its tokens to " +
                         std::to_string(k) + " of " + std::to_string(num_experts) +
                         " experts: is the router damaged?");
    }
  }
  return warnings;
}

}  // namespace colibri
