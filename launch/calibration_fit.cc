#include "launch/calibration_fit.h"

#include <algorithm>

#include "base/error.h"
#include "topology/step_work.h"

namespace colibri {
namespace {

constexpr double kLeastUs = 0.05;
constexpr double kLeastCache = 4 << 20, kMostCache = 1 << 30;

using Samples = std::vector<OpSample>;

struct Timed {
  const ModelShape* shape;
  const StepSample* sample;

  StepSize size() const {
    const auto tokens = static_cast<double>(sample->what.num_tokens);
    if (sample->what.is_prefill) return prefill_size(tokens);
    // The middle of the counted steps.
    return decode_size(tokens, static_cast<double>(sample->what.context) + sample->num_steps / 2.0);
  }
  OpWork work(OpKind kind) const { return step_work(*shape, size())[static_cast<size_t>(kind)]; }
  // Of all ranks: they share a package.
  double step_bytes() const {
    return own_step_bytes(*shape, size()) +
           sample->touched * shape->num_moe_layers() * static_cast<double>(shape->expert_bytes);
  }
  double stage(Stage which) const { return sample->stage_us[static_cast<size_t>(which)]; }
  double layers() const { return shape->num_layers; }
  double layer_us() const { return sample->step_us / layers(); }
  // Of a layer in the mean.
  double op_us(OpGroup group) const { return sample->ops[static_cast<size_t>(group)].us; }
  OpKind attention_kind() const {
    return sample->what.is_prefill ? OpKind::kPromptAttention : OpKind::kAttention;
  }
  double attention_us() const { return op_us(OpGroup::kAttention) / layers(); }
  double dense_us() const { return sample->dense_us / layers(); }
  // With what lies between operations.
  double rows_us() const {
    double staged = 0;
    for (const double us : sample->stage_us) staged += us;
    const double rest = std::max(0.0, sample->step_us - staged);
    return (op_us(OpGroup::kRows) + op_us(OpGroup::kExchange) + rest) / layers();
  }
  double pairs() const { return static_cast<double>(sample->what.num_tokens) * shape->top_k; }
  bool is_remote() const { return sample->compute_us.size() > 1; }
  double experts_us() const {
    return (is_remote() ? slowest_us() : stage(Stage::kExperts)) / shape->num_moe_layers();
  }
  double exchange_us() const {
    return (stage(Stage::kWait) - slowest_us()) / shape->num_moe_layers();
  }
  // Ranks that hold experts; equal parts of them.
  double holders() const {
    return is_remote() ? static_cast<double>(sample->compute_us.size()) - 1 : 1;
  }
  double slowest_us() const {
    return *std::max_element(sample->compute_us.begin() + 1, sample->compute_us.end());
  }
};

// An error counts as much as the operation takes of the step.
OpSample sample_of(const OpWork& work, double us, double whole_us) {
  return {
      .work = work, .us = std::max(us, kLeastUs), .weight = std::clamp(us / whole_us, 0.0, 1.0)};
}

OpSample sample_of(OpKind kind, const Timed& t) {
  switch (kind) {
    case OpKind::kDense:
      return sample_of(t.work(kind), t.dense_us(), t.layer_us());
    case OpKind::kAttention:
    case OpKind::kPromptAttention:
      return sample_of(t.work(kind), t.attention_us(), t.layer_us());
    case OpKind::kElementwise:
      return sample_of(t.work(kind), t.rows_us(), t.layer_us());
    case OpKind::kHead:
      return sample_of(t.work(kind), t.stage(Stage::kHead), t.sample->step_us);
    case OpKind::kExperts:
      return sample_of(
          expert_work(*t.shape, t.sample->touched / t.holders(), t.pairs() / t.holders()),
          t.experts_us(), t.layer_us());
  }
  fail(ErrorKind::kInternal, "OpKind value ", static_cast<int>(kind));
}

// Those of nothing but activations apart.
bool reads_weights(OpKind kind) { return kind != OpKind::kElementwise; }

class Fitter {
 public:
  explicit Fitter(const std::vector<CalibrationRun>& runs) {
    for (const CalibrationRun& run : runs) {
      for (const StepSample& sample : run.samples) timed_.push_back({&run.shape, &sample});
    }
    if (timed_.empty()) fail(ErrorKind::kInput, "no timed step to fit a machine to");
  }

  CalibrationFit fit() {
    fit_kind(OpKind::kElementwise);  // whatever the caches hold
    CalibrationFit best;
    double least = -1;
    // How much of a shared cache stays a step's is seen by nothing but the times.
    for (double bytes = kLeastCache; bytes <= kMostCache; bytes *= 2) {
      const double loss = fit_with(bytes);
      if (least >= 0 && loss >= least) continue;
      least = loss;
      best = fit_;
    }
    fit_ = best;
    if (timed_[0].is_remote()) fit_exchange();
    fit_.device.wide = fit_.device.narrow;
    return fit_;
  }

 private:
  double fit_with(double cache_bytes) {
    fit_.device.cache_bytes = cache_bytes;
    double loss = 0;
    for (size_t i = 0; i < kNumOpKinds; ++i) {
      if (reads_weights(static_cast<OpKind>(i))) loss += fit_kind(static_cast<OpKind>(i));
    }
    return loss;
  }

  double fit_kind(OpKind kind) {
    const Samples samples = samples_of(kind);
    if (samples.empty()) return 0;
    OpCost& cost = fit_.device.narrow[static_cast<size_t>(kind)];
    cost = fit_op_cost(samples);
    fit_.errors[static_cast<size_t>(kind)] = fit_error(cost, samples);
    return fit_loss(cost, samples);
  }

  Samples samples_of(OpKind kind) const {
    Samples samples;
    for (const Timed& t : timed_) {
      const bool is_attention = kind == OpKind::kAttention || kind == OpKind::kPromptAttention;
      if (is_attention && t.attention_kind() != kind) continue;
      samples.push_back(sample_of(kind, t));
      if (reads_weights(kind)) {
        samples.back().cached_share = fit_.device.cached_share(t.step_bytes());
      }
    }
    return samples;
  }

  // Both messages of a layer: a fixed part, and bytes.
  void fit_exchange() {
    Samples samples;
    for (const Timed& t : timed_) {
      const double bytes =
          static_cast<double>(t.sample->what.num_tokens) * row_bytes(*t.shape, false) +
          t.pairs() * result_bytes(*t.shape, false);
      samples.push_back(sample_of({.bytes = bytes}, t.exchange_us(), t.layer_us()));
      samples.back().cached_share = fit_.device.cached_share(t.step_bytes());
    }
    const OpCost both = fit_op_cost(samples);
    fit_.device.exchange_us = both.fixed_us / 2;
    fit_.link_gbps = both.cached_gbps;
    fit_.device.exchange_uncached = both.cached_gbps / both.gbps;
  }

  std::vector<Timed> timed_;
  CalibrationFit fit_;
};

}  // namespace

CalibrationFit fit_calibration(const std::vector<CalibrationRun>& runs) {
  return Fitter(runs).fit();
}

Cluster calibrated_cluster(const CalibrationFit& fit, int num_ranks, const std::string& name) {
  Cluster cluster{.name = name, .devices = {fit.device}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    cluster.parts.push_back({.kind = PartKind::kCpu,
                             .name = "node0.rank" + std::to_string(rank),
                             .package = 0,
                             .numa_node = 0,
                             .device = 0,
                             .num_cores = 1});
    for (int other = 0; other < rank; ++other) {
      cluster.links.push_back({other, rank, "measured", fit.link_gbps, 0});
    }
  }
  return cluster;
}

}  // namespace colibri
