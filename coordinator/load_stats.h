// How many tokens each expert of each layer got: shows a collapsed router, feeds the planner later.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace colibri {

class LoadStats {
 public:
  LoadStats(int num_layers, int num_experts, int64_t top_k)
      : num_experts_(num_experts),
        top_k_(top_k),
        counts_(static_cast<size_t>(num_layers) * static_cast<size_t>(num_experts), 0) {}

  void add(int layer, std::span<const int32_t> expert_ids) {
    for (const int32_t expert : expert_ids) ++counts_[at(layer) + static_cast<size_t>(expert)];
  }
  std::span<const uint64_t> of_layer(int layer) const {
    return {counts_.data() + at(layer), static_cast<size_t>(num_experts_)};
  }

  int num_experts() const { return num_experts_; }
  std::span<const uint64_t> all() const { return counts_; }  // [L, E]

  // One line a layer that sends almost all its choices to as few experts as a token may choose:
  // with at least `min_tokens` tokens seen and more than 95 % of the choices on the K busiest of E
  // > 2 K experts.
  std::vector<std::string> collapsed_layers(uint64_t min_tokens) const;

 private:
  size_t at(int layer) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(num_experts_);
  }
  int num_experts_;
  int64_t top_k_;
  std::vector<uint64_t> counts_;  // [L, E]
};

}  // namespace colibri
