#include "launch/bench_predict.h"

#include <algorithm>

#include "launch/plan_input.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

// Of each layer with experts, what was counted.
std::vector<std::vector<double>> counted_shares(const ModelShape& shape, const LoadStats& stats) {
  std::vector<std::vector<double>> shares = uniform_shares(shape);
  for (size_t layer = 0; layer < shares.size(); ++layer) {
    if (shares[layer].empty()) continue;
    const auto counts = stats.of_layer(static_cast<int>(layer));
    double sum = 0;
    for (const uint64_t count : counts) sum += static_cast<double>(count);
    if (sum == 0) continue;
    for (size_t e = 0; e < shares[layer].size(); ++e) {
      shares[layer][e] = std::min(1.0, shape.top_k * static_cast<double>(counts[e]) / sum);
    }
  }
  return shares;
}

double mean_step_us(SimulatorInput input, const std::vector<StepSize>& steps) {
  double sum = 0;
  for (const StepSize& size : steps) {
    input.size = size;
    sum += simulate_step(input).step_us;
  }
  return sum / static_cast<double>(steps.size());
}

std::vector<StepSize> steps_of(const BenchCase& what, int64_t chunk) {
  if (what.is_prefill) return prefill_steps(what.tokens, what.batch, chunk);
  return {decode_size(what.batch, static_cast<double>(what.tokens) / 2)};
}

}  // namespace

std::vector<StepSize> prefill_steps(int64_t prompt_tokens, int batch, int64_t chunk) {
  std::vector<StepSize> steps;
  StepSize step{0, 0};
  const auto end_step = [&] {
    if (step.num_tokens > 0) steps.push_back(step);
    step = {0, 0};
  };
  for (int sequence = 0; sequence < batch; ++sequence) {
    for (int64_t begin = 0; begin < prompt_tokens;) {
      const int64_t room = chunk - static_cast<int64_t>(step.num_tokens);
      const int64_t end = std::min(prompt_tokens, begin + room);
      const auto first = static_cast<double>(begin), last = static_cast<double>(end);
      step.num_tokens += last - first;
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
                       .shares = is_counted ? counted_shares(session.shape(), session.load_stats())
                                            : shares_named(config.bench.routing, session.shape()),
                       .size = {}};
  for (BenchResult& result : results) {
    result.predicted_step_us = mean_step_us(input, steps_of(result.what, config.common.chunk));
  }
}

}  // namespace colibri
