#include "coordinator/serving_metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <vector>

#include "coordinator/expert_ranks.h"

namespace colibri {
namespace {

using Buckets = std::vector<double>;
using Family = prometheus::MetricFamily;
using Metric = prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Histogram;
using prometheus::Labels;

// Of a page's latencies: some seconds of many streams, a minute of few.
constexpr size_t kRecentValues = 8192;
constexpr auto kRecent = std::chrono::seconds(60);
constexpr auto kLogInterval = std::chrono::seconds(10);

const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                             1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
const Buckets kBetweenTokens = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kOfRequest = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                            30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const Buckets kChoices = {1, 2, 5, 10, 20};
const Buckets kStepTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kOfStep = {1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                         5e-3, 1e-2,   2.5e-2, 5e-2, 0.1,    0.25, 0.5,  1};
const Buckets kOfRecovery = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,  2.5,
                             5,    10,    30,   60,  120,  300, 600};
const Buckets kOfAnswer = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

// 1, 2, 5, 10, ... up to `most`.
Buckets counts_to(int64_t most) {
  Buckets buckets;
  for (double power = 1; power <= static_cast<double>(most); power *= 10) {
    for (const double digit : {1, 2, 5}) {
      if (digit * power <= static_cast<double>(most)) buckets.push_back(digit * power);
    }
  }
  return buckets;
}

double seconds(MetricsClock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The engine's sums, which Prometheus' own counters do not hold, in its form.
class EngineFamilies {
 public:
  EngineFamilies(const EngineReading& reading, std::string model)
      : reading_(reading), model_(std::move(model)) {}

  void add(const char* name, const char* help, double value, bool is_sum) {
    begin(name, help, is_sum);
    put({}, value);
  }
  void add_ranks_and_layers();
  void add_experts();
  std::vector<Family> take() { return std::move(families_); }

 private:
  void begin(const char* name, const char* help, bool is_sum) {
    families_.push_back(
        {name, help, is_sum ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge, {}});
  }
  void put(std::vector<Metric::Label> labels, double value) {
    Metric metric;
    metric.label.push_back({"model_name", model_});
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    metric.counter.value = metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }

  const EngineReading& reading_;
  std::string model_;
  std::vector<Family> families_;
};

void EngineFamilies::add_ranks_and_layers() {
  begin("colibri:ep_bytes_total", "Bytes of rows sent and of results received.", true);
  put({{"dir", "dispatch"}}, static_cast<double>(reading_.dispatch_bytes));
  put({{"dir", "combine"}}, static_cast<double>(reading_.combine_bytes));
  begin("colibri:ep_wait_seconds_total", "Time the coordinator waited for a rank's results.", true);
  for (size_t r = 0; r < reading_.num_ranks(); ++r) {
    put({{"rank", std::to_string(r)}}, reading_.wait_s[r]);
  }
  begin("colibri:ep_rank_tokens_total", "Tokens times their experts on a rank, all layers.", true);
  for (size_t r = 0; r < reading_.num_ranks(); ++r) {
    put({{"rank", std::to_string(r)}}, static_cast<double>(reading_.rank_pairs(r)));
  }
  begin("colibri:ep_balancedness", "Mean over largest load of the ranks with experts, recently.",
        false);
  for (size_t layer = 0; layer < reading_.balancedness.size(); ++layer) {
    if (reading_.balancedness[layer] < 0) continue;
    put({{"layer", std::to_string(layer)}}, reading_.balancedness[layer]);
  }
}

void EngineFamilies::add_experts() {
  begin("colibri:expert_tokens_total", "Tokens that chose an expert.", true);
  const auto num_experts = static_cast<size_t>(reading_.num_experts);
  for (size_t i = 0; i < reading_.expert_tokens.size(); ++i) {
    put({{"layer", std::to_string(i / num_experts)}, {"expert", std::to_string(i % num_experts)}},
        static_cast<double>(reading_.expert_tokens[i]));
  }
}

constexpr const char* kLooks[] = {"begun", "left", "failed"};  // RebalanceLook's

}  // namespace

// Everything that is counted one by one. Prometheus' objects may be used from any thread.
struct ServingMetrics::Families {
  explicit Families(const MetricsOptions& options)
      : labels{{"model_name", options.model}}, lengths(counts_to(options.max_context)) {
    // A reason that has not come yet is 0, not absent.
    for (const char* reason : {"stop", "length", "abort", "error"}) {
      success.Add({{"finished_reason", reason}});
    }
    for (const char* result : {"done", "failed"}) rebalances.Add({{"result", result}});
    for (const char* result : kLooks) looks.Add({{"result", result}});
  }

  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Labels(labels).Register(registry).Add(
        {}, buckets);
  }
  prometheus::Family<Counter>& counters(const char* name, const char* help, const Labels& shared) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(shared).Register(registry);
  }

  prometheus::Registry registry;
  Labels labels;
  Buckets lengths;
  Counter& prompt_tokens = counters("colibri:prompt_tokens_total",
                                    "Prompt tokens of answers that have begun to come.", labels)
                               .Add({});
  Counter& new_tokens = counters("colibri:generation_tokens_total", "New tokens.", labels).Add({});
  prometheus::Family<Counter>& success =
      counters("colibri:request_success_total", "Ended answers, by reason.", labels);
  Histogram& first_token = histogram("colibri:time_to_first_token_seconds",
                                     "From a request's arrival to its first token.", kFirstToken);
  Histogram& between_tokens =
      histogram("colibri:inter_token_latency_seconds",
                "Between two tokens of one answer, one after the other.", kBetweenTokens);
  Histogram& whole = histogram("colibri:e2e_request_latency_seconds",
                               "From a request's arrival to its end.", kOfRequest);
  Histogram& queue = histogram("colibri:request_queue_time_seconds",
                               "From a request's arrival to its first step.", kOfRequest);
  Histogram& inference = histogram("colibri:request_inference_time_seconds",
                                   "From a request's first step to its last token.", kOfRequest);
  Histogram& prefill = histogram("colibri:request_prefill_time_seconds",
                                 "From a request's first step to its first token.", kOfRequest);
  Histogram& decode = histogram("colibri:request_decode_time_seconds",
                                "From a request's first token to its last.", kOfRequest);
  Histogram& prompt_length =
      histogram("colibri:request_prompt_tokens", "Prompt tokens of ended answers.", lengths);
  Histogram& new_length =
      histogram("colibri:request_generation_tokens", "New tokens of ended answers.", lengths);
  Histogram& params_n =
      histogram("colibri:request_params_n", "The n of requests, of each ended answer.", kChoices);
  Histogram& params_max_tokens = histogram("colibri:request_params_max_tokens",
                                           "Most new tokens asked for, of ended answers.", lengths);
  Histogram& step_tokens = histogram("colibri:iteration_tokens_total",
                                     "Prompt tokens read and new tokens of a step.", kStepTokens);
  Histogram& dispatch =
      histogram("colibri:ep_dispatch_seconds",
                "Planning and sending rows to experts, all layers of a step.", kOfStep);
  Histogram& combine = histogram("colibri:ep_combine_seconds",
                                 "Weighing and adding results, all layers of a step.", kOfStep);
  Histogram& recovery =
      histogram("colibri:recovery_seconds",
                "From the notice of a lost worker until steps could run again.", kOfRecovery);
  prometheus::Family<Counter>& rebalances = counters(
      "colibri:rebalances_total", "Moves of experts between ranks, by what came of them.", labels);
  Counter& moved_experts =
      counters("colibri:rebalance_moved_experts_total", "Experts that a rank read anew.", labels)
          .Add({});
  Counter& moved_bytes =
      counters("colibri:rebalance_read_bytes_total", "Bytes of these experts.", labels).Add({});
  prometheus::Family<Counter>& looks =
      counters("colibri:rebalance_plans_total",
               "Plans that the server made by itself, by what came of them.", labels);
  prometheus::Gauge& gain = prometheus::BuildGauge()
                                .Name("colibri:rebalance_predicted_gain_seconds")
                                .Help("What the last of these plans would save of a step.")
                                .Labels(labels)
                                .Register(registry)
                                .Add({});
  prometheus::Family<Counter>& http = counters("http_requests_total", "Answers over HTTP.", {});
  prometheus::Family<Histogram>& http_seconds =
      prometheus::BuildHistogram()
          .Name("http_request_duration_seconds")
          .Help("From a request's last byte to the last of its answer handed over.")
          .Register(registry);
};

ServingMetrics::ServingMetrics(const MetricsOptions& options)
    : options_(options),
      families_(std::make_unique<Families>(options)),
      meter_(MetricsClock::now()),
      first_tokens_(kRecentValues, kRecent),
      between_tokens_(kRecentValues, kRecent),
      next_log_(MetricsClock::now() + kLogInterval) {}
ServingMetrics::~ServingMetrics() = default;

void ServingMetrics::begun(AnswerTimes& answer) {
  answer.begun = MetricsClock::now();
  families_->queue.Observe(seconds(answer.begun - answer.arrived));
}

void ServingMetrics::token(AnswerTimes& answer, MetricsClock::time_point at) {
  families_->new_tokens.Increment();
  if (answer.num_tokens++ == 0) {
    answer.first = at;
    families_->prompt_tokens.Increment(static_cast<double>(answer.num_prompt_tokens));
    families_->first_token.Observe(seconds(at - answer.arrived));
    first_tokens_.add(at, seconds(at - answer.arrived));
  } else {
    families_->between_tokens.Observe(seconds(at - answer.last));
    between_tokens_.add(at, seconds(at - answer.last));
  }
  answer.last = at;
}

void ServingMetrics::ended(const AnswerTimes& answer, const AnswerEnd& end) {
  Families& f = *families_;
  f.success.Add({{"finished_reason", end.reason}}).Increment();
  f.whole.Observe(seconds(MetricsClock::now() - answer.arrived));
  f.prompt_length.Observe(static_cast<double>(answer.num_prompt_tokens));
  f.new_length.Observe(static_cast<double>(answer.num_tokens));
  f.params_n.Observe(end.n);
  f.params_max_tokens.Observe(static_cast<double>(end.max_tokens));
  if (answer.num_tokens == 0) return;
  f.prefill.Observe(seconds(answer.first - answer.begun));
  f.decode.Observe(seconds(answer.last - answer.first));
  f.inference.Observe(seconds(answer.last - answer.begun));
}

void ServingMetrics::answered(const HttpOutcome& outcome) {
  const std::string status = outcome.status > 0 ? std::to_string(outcome.status) : "none";
  families_->http
      .Add({{"handler", outcome.handler}, {"method", outcome.method}, {"status", status}})
      .Increment();
  families_->http_seconds.Add({{"handler", outcome.handler}, {"method", outcome.method}}, kOfAnswer)
      .Observe(outcome.seconds);
}

void ServingMetrics::step_done(const Engine& engine) {
  count_step(engine);
  const auto now = MetricsClock::now();
  meter_.step_done(engine, now);
  log_if_due(now);
}

void ServingMetrics::idle(const Engine& engine) {
  const auto now = MetricsClock::now();
  meter_.idle(engine, now);
  log_if_due(now);
}

// A step that a graph replayed has no times of stages.
void ServingMetrics::count_step(const Engine& engine) {
  const EngineTotals& totals = engine.totals();
  const int64_t tokens = totals.num_prompt_tokens + totals.num_new_tokens;
  families_->step_tokens.Observe(static_cast<double>(tokens - num_step_tokens_));
  num_step_tokens_ = tokens;
  const StageTimes& stages = engine.forward().stage_times();
  const auto observe = [&](Stage stage, double& seen_us, Histogram& histogram) {
    const double us = stages.us(stage);
    if (us > seen_us) histogram.Observe((us - seen_us) / 1e6);
    seen_us = us;
  };
  observe(Stage::kDispatch, dispatch_us_, families_->dispatch);
  observe(Stage::kCombine, combine_us_, families_->combine);
}

void ServingMetrics::log_if_due(MetricsClock::time_point now) {
  if (now < next_log_ || !options_.log) return;
  const EngineReading reading = meter_.read(now);
  const double took = seconds(now - (next_log_ - kLogInterval));
  const auto rate = [&](int64_t after, int64_t before) {
    return static_cast<double>(after - before) / took;
  };
  const auto percent = [](int64_t part, int64_t whole) {
    return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  };
  const EngineState& state = reading.state;
  const bool has_worked = reading.totals.num_steps > logged_.totals.num_steps;
  if (has_worked) {
    options_.log(fmt::format(
        "prompt {:.1f} tokens/s, generation {:.1f} tokens/s, running {}, waiting {}, KV cache "
        "{:.1f} %, prefix hits {:.1f} %",
        rate(reading.totals.num_prompt_tokens, logged_.totals.num_prompt_tokens),
        rate(reading.totals.num_new_tokens, logged_.totals.num_new_tokens), state.num_running,
        state.num_waiting, percent(state.num_pages - state.num_idle_pages, state.num_pages),
        percent(state.prefixes.num_hit_tokens, state.prefixes.num_queried_tokens)));
  }
  logged_ = reading;
  next_log_ = now + kLogInterval;
}

void ServingMetrics::set_ranks(std::vector<RankFacts> ranks, const Placement& placement) {
  meter_.set_placement(placement);
  const std::lock_guard lock(mutex_);
  ranks_ = std::move(ranks);
}

void ServingMetrics::recovered(double seconds) { families_->recovery.Observe(seconds); }

void ServingMetrics::rebalanced(const RebalanceResult& result) {
  families_->rebalances.Add({{"result", result.error ? "failed" : "done"}}).Increment();
  if (result.error) return;
  families_->moved_experts.Increment(static_cast<double>(result.num_moved_slots));
  families_->moved_bytes.Increment(static_cast<double>(result.read_bytes));
}

void ServingMetrics::rebalance_looked(RebalanceLook look, double gain_s) {
  families_->looks.Add({{"result", kLooks[static_cast<size_t>(look)]}}).Increment();
  if (look != RebalanceLook::kFailed) families_->gain.Set(gain_s);
}

ServingState ServingMetrics::state(int num_queued) const {
  const auto now = MetricsClock::now();
  ServingState state;
  state.model = options_.model;
  state.uptime_s = seconds(now - start_);
  state.num_queued = num_queued;
  state.engine = meter_.read(now);
  state.last_step_age_s = seconds(now - state.engine.last_step);
  state.first_token_s = first_tokens_.percentiles(now);
  state.between_tokens_s = between_tokens_.percentiles(now);
  const std::lock_guard lock(mutex_);
  state.ranks = ranks_;
  return state;
}

double ServingMetrics::num_lost() const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(std::count_if(ranks_.begin(), ranks_.end(),
                                           [](const RankFacts& one) { return one.is_lost; }));
}

std::string ServingMetrics::text(int num_queued) const {
  const auto now = MetricsClock::now();
  const EngineReading reading = meter_.read(now);
  const EngineState& state = reading.state;
  EngineFamilies own(reading, options_.model);
  const double pages = static_cast<double>(std::max<int64_t>(state.num_pages, 1));
  const auto used = static_cast<double>(state.num_pages - state.num_idle_pages);
  own.add("colibri:num_requests_running", "Answers that are being worked out.", state.num_running,
          false);
  own.add("colibri:num_requests_waiting", "Answers that wait to begin.",
          state.num_waiting + num_queued, false);
  own.add("colibri:kv_cache_usage_perc", "Used share of the pages for keys and values, 1 is all.",
          used / pages, false);
  own.add("colibri:prefix_cache_queries_total", "Prompt tokens looked up among known beginnings.",
          static_cast<double>(state.prefixes.num_queried_tokens), true);
  own.add("colibri:prefix_cache_hits_total", "Of these, tokens that were found.",
          static_cast<double>(state.prefixes.num_hit_tokens), true);
  own.add("colibri:num_preemptions_total", "Answers that lost their pages and were begun again.",
          static_cast<double>(state.num_preemptions), true);
  own.add("colibri:engine_steps_total", "Steps of the engine.",
          static_cast<double>(reading.totals.num_steps), true);
  own.add("colibri:last_step_age_seconds", "Time since a step ended, or since the start.",
          seconds(now - reading.last_step), false);
  own.add("colibri:worker_losses_total", "Workers lost since the start.", num_lost(), true);
  own.add_ranks_and_layers();
  if (options_.shows_experts) own.add_experts();
  std::vector<Family> all = own.take();
  for (Family& family : families_->registry.Collect()) all.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace colibri
