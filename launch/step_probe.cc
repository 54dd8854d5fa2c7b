#include "launch/step_probe.h"

#include <algorithm>
#include <chrono>

namespace colibri {
namespace {

constexpr int kUncounted = 2;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Steps, class Value>
double median_of(const Steps& steps, const Value& value) {
  std::vector<double> values;
  for (const auto& step : steps) values.push_back(value(step));
  return median(std::move(values));
}

}  // namespace

StepSample median_sample(const std::vector<StepSample>& samples) {
  StepSample merged = samples.at(0);
  const auto of = [&](const auto& value) { return median_of(samples, value); };
  merged.step_us = of([](const StepSample& s) { return s.step_us; });
  merged.dense_us = of([](const StepSample& s) { return s.dense_us; });
  merged.touched = of([](const StepSample& s) { return s.touched; });
  for (size_t i = 0; i < kNumStages; ++i) {
    merged.stage_us[i] = of([i](const StepSample& s) { return s.stage_us[i]; });
  }
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    merged.ops[i].us = of([i](const StepSample& s) { return s.ops[i].us; });
  }
  for (size_t rank = 0; rank < merged.compute_us.size(); ++rank) {
    merged.compute_us[rank] = of([rank](const StepSample& s) { return s.compute_us[rank]; });
    merged.wait_us[rank] = of([rank](const StepSample& s) { return s.wait_us[rank]; });
  }
  return merged;
}

// Experts with a token, summed over layers.
struct StepProbe::Touched : RouteObserver {
  void on_routes(int, const Batch&, std::span<const int32_t> ids, std::span<const float>) override {
    std::vector<int32_t> sorted(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    sum += std::unique(sorted.begin(), sorted.end()) - sorted.begin();
    ++num_layers;
  }
  int64_t sum = 0, num_layers = 0;
};

struct StepProbe::Step {
  double us = 0, touched = 0;
  std::array<double, kNumStages> stage_us = {};
  OpProfile ops = {};
  std::vector<double> compute_us = {}, wait_us = {};
};

StepProbe::StepProbe(const ModelSession& session, Serving& serving, ProfiledOps& ops)
    : serving_(serving),
      ops_(ops),
      vocab_size_(session.checkpoint().config().vocab_size),
      touched_(std::make_unique<Touched>()) {
  serving.observers.add(*touched_);
}

StepProbe::~StepProbe() = default;

void StepProbe::add_requests(const StepCase& what, int num_steps) {
  const int64_t num_requests = what.is_prefill ? 1 : what.num_tokens;
  for (int64_t i = 0; i < num_requests; ++i) {
    Request request;
    // Those whose prompts are read first decode beside the others' prompts.
    request.max_tokens = what.is_prefill ? 1 : num_steps + num_requests + 1;
    const int64_t length = what.is_prefill ? what.num_tokens : std::max<int64_t>(1, what.context);
    uint32_t state = 12345 + static_cast<uint32_t>(num_added_++);
    for (int64_t k = 0; k < length; ++k) {
      state = state * 1664525 + 1013904223;
      request.prompt_ids.push_back(
          static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab_size_)));
    }
    request.sampling.greedy = true;
    serving_.engine.add(std::move(request));
  }
}

// Until a step had no prompt's tokens.
void StepProbe::read_prompts() {
  double before = -1;
  while (before != serving_.engine.totals().prefill_s) {
    before = serving_.engine.totals().prefill_s;
    serving_.engine.step();
  }
}

StepProbe::Step StepProbe::time_step(bool profiles) {
  const StageTimes stages = serving_.forward.stage_times();
  const ExchangeTotals before = serving_.forward.exchange_totals();
  *touched_ = {};
  if (profiles) ops_.start();
  const auto start = std::chrono::steady_clock::now();
  serving_.engine.step();
  const auto took = std::chrono::steady_clock::now() - start;
  Step step{.us = std::chrono::duration<double, std::micro>(took).count()};
  if (profiles) step.ops = ops_.stop();
  const ExchangeTotals after = serving_.forward.exchange_totals();
  for (size_t i = 0; i < kNumStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    step.stage_us[i] = serving_.forward.stage_times().us(stage) - stages.us(stage);
  }
  if (touched_->num_layers > 0) {
    step.touched = static_cast<double>(touched_->sum) / static_cast<double>(touched_->num_layers);
  }
  for (size_t rank = 0; rank < after.compute_us.size(); ++rank) {
    step.compute_us.push_back(after.compute_us[rank] - before.compute_us[rank]);
    step.wait_us.push_back(after.wait_us[rank] - before.wait_us[rank]);
  }
  return step;
}

std::vector<StepProbe::Step> StepProbe::time_steps(const StepCase& what, int num_steps,
                                                   bool profiles) {
  std::vector<Step> steps;
  if (what.is_prefill) {
    for (int i = 0; i < num_steps; ++i) {
      add_requests(what, 1);
      steps.push_back(time_step(profiles));
    }
    return steps;
  }
  add_requests(what, num_steps);
  read_prompts();
  for (int i = 0; i < num_steps; ++i) steps.push_back(time_step(profiles));
  serving_.engine.cancel_all();
  return steps;
}

StepSample StepProbe::run(const StepCase& what, int num_steps) {
  const auto counted = [&](bool profiles) {
    std::vector<Step> steps = time_steps(what, num_steps + kUncounted, profiles);
    steps.erase(steps.begin(), steps.begin() + kUncounted);
    return steps;
  };
  const std::vector<Step> steps = counted(false), profiled = counted(true);
  StepSample sample{.what = what, .num_steps = num_steps};
  sample.step_us = median_of(steps, [](const Step& s) { return s.us; });
  sample.touched = median_of(steps, [](const Step& s) { return s.touched; });
  for (size_t i = 0; i < kNumStages; ++i) {
    sample.stage_us[i] = median_of(steps, [i](const Step& s) { return s.stage_us[i]; });
  }
  // The head's stage is its product, and little else.
  sample.dense_us = median_of(profiled, [](const Step& s) {
    return s.ops[static_cast<size_t>(OpGroup::kDense)].us -
           s.stage_us[static_cast<size_t>(Stage::kHead)];
  });
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    sample.ops[i] = profiled.back().ops[i];
    sample.ops[i].us = median_of(profiled, [i](const Step& s) { return s.ops[i].us; });
  }
  for (size_t rank = 0; rank < steps.front().compute_us.size(); ++rank) {
    sample.compute_us.push_back(
        median_of(steps, [rank](const Step& s) { return s.compute_us[rank]; }));
    sample.wait_us.push_back(median_of(steps, [rank](const Step& s) { return s.wait_us[rank]; }));
  }
  return sample;
}

}  // namespace colibri
