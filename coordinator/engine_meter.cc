#include "coordinator/engine_meter.h"

#include <algorithm>
#include <numeric>

namespace colibri {
namespace {

using Clock = EngineMeter::Clock;

constexpr auto kLookInterval = std::chrono::milliseconds(100);
constexpr auto kWindow = std::chrono::seconds(10);
constexpr auto kPointInterval = std::chrono::milliseconds(500);
constexpr double kRateSeconds = 5;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Adds what `now` has grown by; a sum that went back began anew.
template <class T>
void grow(T& total, T& seen, T now) {
  total += now < seen ? now : now - seen;
  seen = now;
}

template <class T>
void grow(std::vector<T>& total, std::vector<T>& seen, const std::vector<T>& now) {
  if (total.size() < now.size()) total.resize(now.size());
  if (seen.size() != now.size()) seen.assign(now.size(), T{});
  for (size_t i = 0; i < now.size(); ++i) grow(total[i], seen[i], now[i]);
}

template <class T>
T since(const std::vector<T>& now, const std::vector<T>& before, size_t i) {
  return now[i] - (i < before.size() ? before[i] : T{});
}

}  // namespace

uint64_t EngineReading::rank_pairs(size_t rank) const {
  uint64_t pairs = 0;
  for (size_t at = rank; at < layer_pairs.size(); at += num_ranks()) pairs += layer_pairs[at];
  return pairs;
}

EngineMeter::EngineMeter(Clock::time_point now) : last_step_(now), next_look_(now) {
  reading_.last_step = now;
  older_.at = newer_.at = now;
  points_.push_back({.at = now});
}

void EngineMeter::step_done(const Engine& engine, Clock::time_point now) {
  last_step_ = now;
  is_behind_ = true;
  if (now >= next_look_) look(engine, now);
}

void EngineMeter::idle(const Engine& engine, Clock::time_point now) {
  if (is_behind_) look(engine, now);
}

void EngineMeter::look(const Engine& engine, Clock::time_point now) {
  is_behind_ = false;
  next_look_ = now + kLookInterval;
  const ExchangeTotals exchange = engine.forward().exchange_totals();
  const std::lock_guard lock(mutex_);
  add_state(engine.state());
  add_totals(engine.totals());
  reading_.last_step = last_step_;
  add_exchange(exchange);
  add_experts(engine.forward().load_stats());
  look_at_window(now);
  add_point(now);
}

void EngineMeter::add_totals(const EngineTotals& totals) {
  EngineTotals& sums = reading_.totals;
  grow(sums.num_steps, seen_totals_.num_steps, totals.num_steps);
  grow(sums.num_prompt_tokens, seen_totals_.num_prompt_tokens, totals.num_prompt_tokens);
  grow(sums.num_new_tokens, seen_totals_.num_new_tokens, totals.num_new_tokens);
  grow(sums.prefill_s, seen_totals_.prefill_s, totals.prefill_s);
  grow(sums.decode_s, seen_totals_.decode_s, totals.decode_s);
}

void EngineMeter::add_state(const EngineState& state) {
  EngineState sums = reading_.state;
  PrefixStats& seen = seen_state_.prefixes;
  grow(sums.num_preemptions, seen_state_.num_preemptions, state.num_preemptions);
  grow(sums.prefixes.num_queried_tokens, seen.num_queried_tokens,
       state.prefixes.num_queried_tokens);
  grow(sums.prefixes.num_hit_tokens, seen.num_hit_tokens, state.prefixes.num_hit_tokens);
  reading_.state = state;
  reading_.state.num_preemptions = sums.num_preemptions;
  reading_.state.prefixes = sums.prefixes;
}

void EngineMeter::add_exchange(const ExchangeTotals& totals) {
  grow(reading_.dispatch_bytes, seen_dispatch_bytes_, totals.dispatch_bytes);
  grow(reading_.combine_bytes, seen_combine_bytes_, totals.combine_bytes);
  grow(reading_.layer_pairs, seen_pairs_, totals.layer_pairs);
  std::vector<double> wait_s = totals.wait_us;
  for (double& wait : wait_s) wait /= 1e6;
  grow(reading_.wait_s, seen_wait_s_, wait_s);
}

void EngineMeter::add_experts(const LoadStats& stats) {
  reading_.num_experts = stats.num_experts();
  const auto counts = stats.all();
  reading_.expert_tokens.resize(counts.size());
  seen_experts_.resize(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    grow(reading_.expert_tokens[i], seen_experts_[i], counts[i]);
  }
}

// Between two looks the window is as long as one period, at its end as two.
void EngineMeter::look_at_window(Clock::time_point now) {
  const size_t ranks = reading_.num_ranks();
  const double busy = busy_s() - older_.busy_s;
  reading_.wait_share.resize(ranks);
  for (size_t rank = 0; rank < ranks && busy > 0; ++rank) {
    reading_.wait_share[rank] = since(reading_.wait_s, older_.wait_s, rank) / busy;
  }
  reading_.balancedness.resize(reading_.num_layers(), -1);
  for (size_t layer = 0; layer < std::min(reading_.num_layers(), num_holders_.size()); ++layer) {
    uint64_t sum = 0, most = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const uint64_t pairs = since(reading_.layer_pairs, older_.layer_pairs, layer * ranks + rank);
      sum += pairs;
      most = std::max(most, pairs);
    }
    if (most == 0 || num_holders_[layer] == 0) continue;
    reading_.balancedness[layer] =
        static_cast<double>(sum) / (num_holders_[layer] * static_cast<double>(most));
  }
  if (now - newer_.at < kWindow) return;
  older_ = std::move(newer_);
  newer_ = anchor(now);
}

EngineMeter::Anchor EngineMeter::anchor(Clock::time_point now) const {
  return {.at = now,
          .busy_s = busy_s(),
          .layer_pairs = reading_.layer_pairs,
          .wait_s = reading_.wait_s};
}

void EngineMeter::add_point(Clock::time_point now) {
  if (points_.size() < 2 || now - points_[points_.size() - 2].at >= kPointInterval) {
    points_.push_back({});
  }
  points_.back() = {now, reading_.totals.num_prompt_tokens, reading_.totals.num_new_tokens};
  while (points_.size() > 2 && seconds(now - points_[1].at) > kRateSeconds) points_.pop_front();
}

void EngineMeter::set_placement(const Placement& placement) {
  const std::lock_guard lock(mutex_);
  num_holders_.assign(static_cast<size_t>(placement.num_layers()), 0);
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    for (int rank = 0; rank < placement.num_ranks(); ++rank) {
      if (placement.experts_of(layer, rank).empty()) continue;
      ++num_holders_[static_cast<size_t>(layer)];
    }
  }
}

EngineReading EngineMeter::read(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  EngineReading reading = reading_;
  Point from = points_.front();
  for (const Point& point : points_) {
    if (seconds(now - point.at) >= kRateSeconds) from = point;
  }
  const double took = std::min(seconds(now - from.at), kRateSeconds);
  if (took <= 0) return reading;
  const auto rate = [&](int64_t after, int64_t before) {
    return static_cast<double>(after - before) / took;
  };
  reading.prompt_tokens_per_s = rate(points_.back().prompt_tokens, from.prompt_tokens);
  reading.new_tokens_per_s = rate(points_.back().new_tokens, from.new_tokens);
  return reading;
}

}  // namespace colibri
