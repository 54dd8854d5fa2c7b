#include "launch/bench_predict.h"

#include <algorithm>
#include <cmath>

#include "launch/plan_input.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

// Of each layer with experts, what was counted [L, E] in this test: a prompt's tokens share their
// experts more than those that decode.
std::vector<std::vector<double>> counted_shares(const ModelShape& shape,
                                                std::span<const uint64_t> choices) {
  std::vector<std::vector<double>> shares = uniform_shares(shape);
  for (size_t layer = 0; layer < shares.size(); ++layer) {
    if (shares[layer].empty() || choices.empty()) continue;
    const auto counts = choices.subspan(layer * shares[layer].size(), shares[layer].size());
    double sum = 0;
    for (const uint64_t count : counts) sum += static_cast<double>(count);
    if (sum == 0) continue;
    for (size_t e = 0; e < shares[layer].size(); ++e) {
      shares[layer][e] = std::min(1.0, shape.top_k * static_cast<double>(counts[e]) / sum);
    }
  }
  return shares;
}

// [L] counted over expected; 1 where nothing was counted.
std::vector<double> touched_factors(const std::vector<std::vector<double>>& shares,
                                    const std::vector<StepSize>& steps,
                                    const std::vector<uint64_t>& touched, int64_t num_steps) {
  std::vector<double> factors(shares.size(), 1);
  for (size_t layer = 0; layer < shares.size() && !touched.empty(); ++layer) {
    double expected = 0;
    for (const StepSize& step : steps) {
      for (const double p : shares[layer]) expected += 1 - std::pow(1 - p, step.num_tokens);
    }
    if (expected <= 0 || touched[layer] == 0) continue;
    const double counted = static_cast<double>(touched[layer]) / static_cast<double>(num_steps);
    factors[layer] = counted * static_cast<double>(steps.size()) / expected;
  }
  return factors;
}

int64_t num_steps(const BenchResult& result) {
  int64_t steps = 0;
  for (const BenchSample& sample : result.samples) steps += sample.num_steps;
  return std::max<int64_t>(1, steps);
}

PredictedStep mean_step(SimulatorInput input, const std::vector<StepSize>& steps) {
  PredictedStep mean;
  for (const StepSize& size : steps) {
    input.size = size;
    const SimulatedStep step = simulate_step(input);
    const double share = 1 / static_cast<double>(steps.size());
    mean.step_us += share * step.step_us;
    mean.own_us += share * step.attention_us;
    mean.head_us += share * step.head_us;
    mean.experts_us +=
        share * (step.own_us + step.dispatch_us + step.wait_us + step.experts_us + step.combine_us);
  }
  return mean;
}

std::vector<StepSize> steps_of(const BenchCase& what, int64_t chunk) {
  if (what.is_prefill) return prefill_steps(what.tokens, what.batch, chunk);
  return {decode_size(what.batch, static_cast<double>(what.tokens) / 2)};
}

}  // namespace

std::vector<StepSize> prefill_steps(int64_t prompt_tokens, int batch, int64_t chunk) {
  std::vector<StepSize> steps;
  StepSize step{.num_tokens = 0, .num_logit_rows = 0};
  const auto end_step = [&] {
    if (step.num_tokens > 0) steps.push_back(step);
    step = {.num_tokens = 0, .num_logit_rows = 0};
  };
  for (int sequence = 0; sequence < batch; ++sequence) {
    for (int64_t begin = 0; begin < prompt_tokens;) {
      const int64_t room = chunk - static_cast<int64_t>(step.num_tokens);
      const int64_t end = std::min(prompt_tokens, begin + room);
      const auto first = static_cast<double>(begin), last = static_cast<double>(end);
      step.num_tokens += last - first;
      step.num_prompt_tokens += last - first;
      step.prompt_positions += (last * (last + 1) - first * (first + 1)) / 2;
      step.prompt_kv_positions += last;
      if (end == prompt_tokens) step.num_logit_rows += 1;
      if (static_cast<int64_t>(step.num_tokens) == chunk) end_step();
      begin = end;
    }
  }
  end_step();
  return steps;
}

void add_predictions(const RunConfig& config, const ModelSession& session,
                     std::vector<BenchResult>& results) {
  const Cluster cluster = machine_named(config.bench.predict);
  const int num_ranks = session.placement().num_ranks();
  const bool on_gpus = session.device().place() == Place::kDevice;
  const RankMap ranks = ranks_on(cluster, num_ranks, on_gpus, "1");
  const bool is_counted = config.bench.routing == "model" || session.shape().num_experts == 0;
  SimulatorInput input{.shape = &session.shape(),
                       .ranks = &ranks,
                       .placement = &session.placement(),
                       .shares = {},
                       .touched_factor = {},
                       .size = {}};
  for (BenchResult& result : results) {
    input.shares = is_counted ? counted_shares(session.shape(), result.choices)
                              : shares_named(config.bench.routing, session.shape());
    const std::vector<StepSize> steps = steps_of(result.what, config.common.chunk);
    input.touched_factor = touched_factors(input.shares, steps, result.touched, num_steps(result));
    result.predicted = mean_step(input, steps);
  }
}

}  // namespace colibri
