#include "coordinator/host_path.h"

#include <vector>

#include "base/uploaded_array.h"
#include "coordinator/dispatch_plan.h"

namespace colibri {
namespace {

// What the router chose, [T, K] in host memory.
struct Choice {
  std::span<int32_t> ids;
  std::span<float> weights;
};

class HostPath : public ExpertPath {
 public:
  explicit HostPath(const HostPathParts& parts)
      : parts_(parts),
        top_k_(parts.config->top_k),
        device_offset_(*parts.device),
        stats_(parts.config->num_layers, parts.config->num_experts, parts.config->top_k) {
    device_offset_.reserve(static_cast<size_t>(parts.max_tokens * parts.config->top_k));
  }
  void begin(const RoutedTokens& tokens, const Deadline& deadline, Stream& stream) override;
  void run_local(Stream& stream) override { parts_.exchange->run_local(stream); }
  LocatedResults finish(const Deadline& deadline, Stream& stream) override;
  bool end_step(const Deadline&, Stream& stream) override {
    stream.synchronize();
    return true;
  }
  const LoadStats& load_stats() const override { return stats_; }
  ExchangeTotals totals() const override { return parts_.exchange->totals(); }
  std::vector<int> late_ranks() const override { return parts_.exchange->late_ranks(); }
  void give_up() override { parts_.exchange->restart(); }

 private:
  bool is_on_host() const { return parts_.device->place() == Place::kHost; }
  Choice fetch(const RoutedTokens& tokens, Stream& stream);
  void override_choice(const RoutedTokens& tokens, const Choice& chosen, Stream& stream);

  HostPathParts parts_;
  int64_t top_k_;
  std::vector<int32_t> host_ids_;    // copies, where the host cannot read the device's
  std::vector<float> host_weights_;  // [T, K] each
  DispatchPlan plan_;
  std::vector<int64_t> offset_;  // [T, K] elements
  UploadedArray<int64_t> device_offset_;
  LoadStats stats_;
};

// The step's one wait for the device in this layer. Copies into pageable memory would wait as well,
// but Device::waited_us() would not know.
Choice HostPath::fetch(const RoutedTokens& tokens, Stream& stream) {
  const auto count = static_cast<size_t>(tokens.num_tokens() * top_k_);
  if (is_on_host()) return {{tokens.expert_ids, count}, {tokens.weights, count}};
  host_ids_.resize(count);
  host_weights_.resize(count);
  stream.synchronize();
  parts_.device->copy(host_ids_.data(), tokens.expert_ids, count * sizeof(int32_t), stream);
  parts_.device->copy(host_weights_.data(), tokens.weights, count * sizeof(float), stream);
  stream.synchronize();
  return {host_ids_, host_weights_};
}

void HostPath::override_choice(const RoutedTokens& tokens, const Choice& chosen, Stream& stream) {
  parts_.routing->choose(tokens.layer, *tokens.batch, chosen.ids, chosen.weights);
  if (is_on_host()) return;
  parts_.device->copy(tokens.weights, chosen.weights.data(), chosen.weights.size_bytes(), stream);
}

void HostPath::begin(const RoutedTokens& tokens, const Deadline&, Stream& stream) {
  const Choice chosen = fetch(tokens, stream);
  check_choice(tokens.layer, *tokens.batch, chosen.ids, top_k_);
  if (parts_.routing != nullptr) override_choice(tokens, chosen, stream);
  if (parts_.observer != nullptr) {
    parts_.observer->on_routes(tokens.layer, *tokens.batch, chosen.ids, chosen.weights);
  }
  stats_.add(tokens.layer, chosen.ids);
  plan_dispatch({.layer = tokens.layer,
                 .num_tokens = tokens.num_tokens(),
                 .top_k = top_k_,
                 .expert_ids = chosen.ids},
                *parts_.placement, plan_);
  parts_.exchange->begin({.layer = tokens.layer,
                          .tokens = tokens.rows,
                          .num_tokens = tokens.num_tokens(),
                          .row_begin = plan_.row_begin,
                          .row_token = plan_.row_token,
                          .pair_begin = plan_.pair_begin,
                          .slot = plan_.slot},
                         stream);
}

LocatedResults HostPath::finish(const Deadline& deadline, Stream& stream) {
  const ExpertResults results = parts_.exchange->finish(deadline, stream);
  offset_.resize(plan_.pair_of_choice.size());
  for (size_t i = 0; i < offset_.size(); ++i) {
    offset_[i] = results.offset[static_cast<size_t>(plan_.pair_of_choice[i])];
  }
  return {results.data, results.dtype, device_offset_.upload(offset_, stream)};
}

}  // namespace

std::unique_ptr<ExpertPath> make_host_path(const HostPathParts& parts) {
  return std::make_unique<HostPath>(parts);
}

}  // namespace colibri
