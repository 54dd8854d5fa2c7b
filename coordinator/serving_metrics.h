// What the server shows Prometheus: vLLM's names and meanings under `colibri:`, and what expert
// parallelism costs. docs/serving.md lists them.
//
// Threads: what is told of requests comes from the engine's or the server's thread, steps from the
// engine's; text(), state() and set_ranks() may be called on any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/engine.h"
#include "coordinator/engine_meter.h"
#include "coordinator/recent_values.h"
#include "coordinator/request.h"
#include "coordinator/serving_state.h"

namespace colibri {

using MetricsClock = std::chrono::steady_clock;

struct MetricsOptions {
  std::string model;
  int64_t max_context = 0;
  bool shows_experts = false;  // a counter for each layer and expert: thousands of lines
  // Called on the engine's thread with a line each ten seconds in which steps ran; may be empty.
  std::function<void(const std::string& line)> log = {};
};

// One answer on its way; of the engine's thread once it is queued.
struct AnswerTimes {
  MetricsClock::time_point arrived = {}, begun = {}, first = {}, last = {};
  int64_t num_prompt_tokens = 0, num_tokens = 0;
};

// What of an answer is known when it ends.
struct AnswerEnd {
  // "stop", "length", "abort" (the client went, or it was cancelled) or "error".
  const char* reason = "stop";
  int64_t max_tokens = 0;
  int n = 1;  // answers to each prompt of its request
};

struct HttpOutcome {
  std::string handler;  // one of few paths, never a client's own words
  std::string method;   // likewise
  int status = 0;       // 0: nothing was answered
  double seconds = 0;
};

struct RebalanceResult;  // coordinator/expert_ranks.h

// What came of a plan that the server made by itself (--rebalance).
enum class RebalanceLook : uint8_t { kBegun, kLeft, kFailed };

class ServingMetrics {
 public:
  explicit ServingMetrics(const MetricsOptions& options);
  ~ServingMetrics();

  void begun(AnswerTimes& answer);
  // `at`: when its newest token was there.
  void token(AnswerTimes& answer, MetricsClock::time_point at);
  void ended(const AnswerTimes& answer, const AnswerEnd& end);
  void answered(const HttpOutcome& outcome);

  // After each Engine::step() that worked, and after one that found nothing to do.
  void step_done(const Engine& engine);
  void idle(const Engine& engine);

  // Who holds what, and who is lost; again whenever that changes.
  void set_ranks(std::vector<RankFacts> ranks, const Placement& placement);
  // Steps can run again, so long after a loss was noticed. Any thread.
  void recovered(double seconds);
  // Experts have moved, or could not. The engine's thread.
  void rebalanced(const RebalanceResult& result);
  // A plan was made; `gain_s` of a step is predicted of it (kFailed: none was made). Any thread.
  void rebalance_looked(RebalanceLook look, double gain_s);

  // In the text format of Prometheus. `num_queued`: answers that the engine does not know yet.
  std::string text(int num_queued) const;
  // All but the version.
  ServingState state(int num_queued) const;
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Families;  // Prometheus' own

  void count_step(const Engine& engine);
  double num_lost() const;
  void log_if_due(MetricsClock::time_point now);

  MetricsOptions options_;
  std::unique_ptr<Families> families_;
  EngineMeter meter_;
  MetricsClock::time_point start_ = MetricsClock::now();
  RecentValues first_tokens_, between_tokens_;  // seconds
  mutable std::mutex mutex_;
  std::vector<RankFacts> ranks_;
  // Of the engine's thread.
  double dispatch_us_ = 0, combine_us_ = 0;
  int64_t num_step_tokens_ = 0;
  EngineReading logged_;
  MetricsClock::time_point next_log_;
};

}  // namespace colibri
