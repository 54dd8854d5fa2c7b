#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "coordinator/route_override.h"
#include "topology/route_file.h"

namespace colibri {
namespace {

// Sequences begin this many tokens apart: a prime, so that they do not meet.
constexpr uint64_t kSequenceStride = 7919;

class RecordedRouting : public RouteOverride {
 public:
  RecordedRouting(const ModelConfig& config, const std::filesystem::path& path)
      : top_k_(static_cast<size_t>(config.top_k)), layers_(static_cast<size_t>(config.num_layers)) {
    RouteFileReader reader(path);
    check_shape(config, reader.header(), path);
    RouteBlock block;
    while (reader.next(block)) add(block, path);
    for (size_t l = 0; l < layers_.size(); ++l) {
      if (!config.layer_is_moe[l] || !layers_[l].ids.empty()) continue;
      fail(ErrorKind::kInput, path.string(), ": no token of layer ", l, " is recorded");
    }
  }

  void choose(int layer, const Batch& batch, std::span<int32_t> expert_ids,
              std::span<float> weights) override {
    const Choices& recorded = layers_[static_cast<size_t>(layer)];
    const size_t num_tokens = recorded.ids.size() / top_k_;
    for (size_t t = 0; t < batch.ids.size(); ++t) {
      const uint64_t place = static_cast<uint64_t>(batch.positions[t]) +
                             static_cast<uint64_t>(batch.sequences[t]) * kSequenceStride;
      const size_t from = place % num_tokens * top_k_;
      std::copy_n(recorded.ids.data() + from, top_k_, expert_ids.data() + t * top_k_);
      std::copy_n(recorded.weights.data() + from, top_k_, weights.data() + t * top_k_);
    }
  }

 private:
  struct Choices {
    std::vector<int32_t> ids;
    std::vector<float> weights;
  };

  void check_shape(const ModelConfig& config, const RouteFileHeader& header,
                   const std::filesystem::path& path) const {
    if (header.num_layers == config.num_layers && header.num_experts == config.num_experts &&
        header.top_k == config.top_k && header.layer_is_moe == config.layer_is_moe) {
      return;
    }
    fail(ErrorKind::kInput, path.string(), ": recorded with ", header.num_layers, " layers, ",
         header.num_experts, " experts, ", header.top_k, " a token; this model has ",
         config.num_layers, ", ", config.num_experts, ", ", config.top_k,
         ", or its dense layers lie elsewhere");
  }

  void add(const RouteBlock& block, const std::filesystem::path& path) {
    Choices& layer = layers_[static_cast<size_t>(block.layer)];
    for (const float weight : block.weights) {
      if (!std::isfinite(weight)) {
        fail(ErrorKind::kInput, path.string(), ": layer ", block.layer,
             " holds a weight that is not finite; want the record of a sound run");
      }
    }
    layer.ids.insert(layer.ids.end(), block.expert_ids.begin(), block.expert_ids.end());
    layer.weights.insert(layer.weights.end(), block.weights.begin(), block.weights.end());
  }

  size_t top_k_;
  std::vector<Choices> layers_;  // [L]
};

}  // namespace

std::unique_ptr<RouteOverride> make_recorded_routing(const ModelConfig& config,
                                                     const std::filesystem::path& path) {
  return std::make_unique<RecordedRouting>(config, path);
}

}  // namespace colibri
