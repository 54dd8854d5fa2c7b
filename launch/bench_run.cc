#include "launch/bench_run.h"

#include <algorithm>
#include <chrono>

#include "launch/rank_signals.h"

namespace colibri {
namespace {

// What all sums stand at; a sample is the difference of two.
struct Reading {
  StageTimes stages;
  ExchangeTotals exchange;
  Traffic traffic;
  int64_t num_steps = 0;
  FixedStepTotals fixed;
  double waited_us = 0;
};

std::vector<double> difference(const std::vector<double>& after,
                               const std::vector<double>& before) {
  std::vector<double> between(after.size());
  for (size_t i = 0; i < after.size(); ++i) between[i] = after[i] - before[i];
  return between;
}

std::vector<uint64_t> choices_of(const ModelSession& session) {
  const auto all = session.load_stats().all();
  return {all.begin(), all.end()};
}

void add_counts(const std::vector<uint64_t>& after, const std::vector<uint64_t>& before,
                std::vector<uint64_t>& sum) {
  sum.resize(after.size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += after[i] - before[i];
}

class Bench {
 public:
  Bench(const ModelSession& session, Serving& serving)
      : session_(session),
        vocab_size_(session.checkpoint().config().vocab_size),
        serving_(serving),
        traffic_(session.shape()) {
    serving.observers.add(traffic_);
  }

  BenchSample run(const BenchCase& what) {
    for (int i = 0; i < what.batch; ++i) serving_.engine.add(request(what, i));
    const Reading before = read();
    const auto start = std::chrono::steady_clock::now();
    while (serving_.engine.step()) {
      if (drain_requested()) serving_.engine.cancel_all();
    }
    const auto took = std::chrono::steady_clock::now() - start;
    return sample(what, std::chrono::duration<double>(took).count(), before);
  }

  std::vector<uint64_t> touched() const { return traffic_.touched(); }

  // Without graphs, whose replays call no operation.
  GpuProfile profile(const BenchCase& what, ProfiledOps& ops) {
    serving_.forward.set_replays(false);
    ops.start();
    GpuProfile profile;
    profile.num_steps = run(what).num_steps;
    profile.kinds = ops.stop();
    serving_.forward.set_replays(true);
    return profile;
  }

 private:
  Request request(const BenchCase& what, int sequence) const {
    Request request;
    request.max_tokens = what.is_prefill ? 1 : what.tokens;
    const int64_t prompt = what.is_prefill ? what.tokens : 1;
    uint32_t state = 12345 + static_cast<uint32_t>(sequence);
    for (int64_t i = 0; i < prompt; ++i) {
      state = state * 1664525 + 1013904223;
      request.prompt_ids.push_back(
          static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab_size_)));
    }
    request.sampling.greedy = true;
    return request;
  }

  Reading read() const {
    const ExchangeTotals exchange = serving_.forward.exchange_totals();
    return {.stages = serving_.forward.stage_times(),
            .exchange = exchange,
            .traffic = traffic_.total(),
            .num_steps = serving_.engine.totals().num_steps,
            .fixed = serving_.forward.fixed_steps(),
            .waited_us = session_.device().waited_us() + exchange.finish_us};
  }

  BenchSample sample(const BenchCase& what, double seconds, const Reading& before) const {
    const Reading after = read();
    BenchSample sample;
    sample.seconds = seconds;
    sample.num_tokens = what.tokens * what.batch;
    sample.num_steps = after.num_steps - before.num_steps;
    for (size_t i = 0; i < kNumStages; ++i) {
      const auto stage = static_cast<Stage>(i);
      sample.stage_us[i] = after.stages.us(stage) - before.stages.us(stage);
    }
    sample.traffic = after.traffic - before.traffic;
    const ExchangeTotals &x = after.exchange, &y = before.exchange;
    sample.dispatch_bytes = x.dispatch_bytes - y.dispatch_bytes;
    sample.combine_bytes = x.combine_bytes - y.combine_bytes;
    sample.num_messages = x.num_messages - y.num_messages;
    sample.wait_us = difference(x.wait_us, y.wait_us);
    sample.compute_us = difference(x.compute_us, y.compute_us);
    sample.fixed = {after.fixed.num_steps - before.fixed.num_steps,
                    after.fixed.num_reruns - before.fixed.num_reruns};
    sample.waited_us = std::min(after.waited_us - before.waited_us, seconds * 1e6);
    return sample;
  }

  const ModelSession& session_;
  int64_t vocab_size_;
  Serving& serving_;
  TrafficCounter traffic_;
};

}  // namespace

std::string BenchCase::name() const { return (is_prefill ? "pp" : "tg") + std::to_string(tokens); }

std::vector<BenchCase> bench_cases(const BenchOptions& options) {
  std::vector<BenchCase> cases;
  for (const bool is_prefill : {true, false}) {
    for (const int64_t tokens : is_prefill ? options.prompt_tokens : options.new_tokens) {
      if (tokens == 0) continue;
      for (const int batch : options.batches) cases.push_back({is_prefill, tokens, batch});
    }
  }
  return cases;
}

SessionNeeds bench_needs(const std::vector<BenchCase>& cases) {
  SessionNeeds needs;
  for (const BenchCase& what : cases) {
    needs.max_context = std::max(needs.max_context, what.tokens + 1);
    needs.num_sequences = std::max(needs.num_sequences, what.batch);
  }
  return needs;
}

std::vector<BenchResult> run_bench(const std::vector<BenchCase>& cases, int repetitions,
                                   const BenchBed& bed) {
  Bench bench(*bed.session, *bed.serving);
  std::vector<BenchResult> results;
  for (const BenchCase& what : cases) {
    bench.run(what);
    results.push_back({.what = what, .samples = {}});
  }
  for (int i = 0; i < repetitions; ++i) {
    bed.between();
    for (BenchResult& result : results) {
      const std::vector<uint64_t> before = choices_of(*bed.session), touched = bench.touched();
      const BenchSample sample = bench.run(result.what);
      if (drain_requested()) return results;
      result.samples.push_back(sample);
      add_counts(choices_of(*bed.session), before, result.choices);
      add_counts(bench.touched(), touched, result.touched);
    }
  }
  for (BenchResult& result : results) {
    if (bed.profiled == nullptr || drain_requested()) break;
    result.profile = bench.profile(result.what, *bed.profiled);
  }
  if (!bed.trace_directory.empty() && !drain_requested()) {
    bed.serving->tracer.start(bed.trace_directory);
    for (const BenchCase& what : cases) bench.run(what);
    bed.serving->tracer.stop();
  }
  return results;
}

}  // namespace colibri
