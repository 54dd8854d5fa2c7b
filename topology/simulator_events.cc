#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "topology/simulator_parts.h"

namespace colibri {
namespace {

enum class StepEventKind : uint8_t {
  kLayer,     // a coordinator begins a layer
  kDispatch,  // it has routed its tokens
  kRows,      // rows are at a rank
  kComputed,  // the rank is done with them
};

struct StepEvent {
  double at_us = 0;
  int order = 0;  // between equal times: as they were made
  StepEventKind kind = StepEventKind::kLayer;
  size_t coordinator = 0;  // position in the list
  int rank = 0;
  bool operator>(const StepEvent& other) const {
    return std::tie(at_us, order) > std::tie(other.at_us, other.order);
  }
};

// One rank's part of a layer, in the order of time.
struct Answer {
  double rows_us = 0, begun_us = 0, computed_us = 0, back_us = 0;
  double start_us = 0;  // of both exchanges, without a byte
};

struct CoordinatorState {
  int layer = 0;
  int num_open = 0;  // ranks whose results are not here
  double sent_us = 0, own_done_us = 0;
  Travelling travels;
  std::vector<Answer> answers;  // [R] of this layer
  Answer last;                  // of them, by back_us
  SimulatedStep step;
};

class Simulation {
 public:
  explicit Simulation(const SimulatorInput& input)
      : in_(input),
        shape_(*input.shape),
        ranks_(*input.ranks),
        figures_(input, input.size.num_tokens),
        cached_(cached_shares(input, figures_)),
        states_(ranks_.coordinators().size()),
        rank_free_us_(static_cast<size_t>(ranks_.num_ranks())),
        rank_busy_us_(rank_free_us_.size()) {
    for (CoordinatorState& state : states_) state.answers.resize(rank_free_us_.size());
    for (const int rank : ranks_.coordinators()) {
      own_.push_back(own_times(shape_, in_.size, ranks_.device(rank), cached(rank)));
    }
  }

  SimulatedStep run() {
    for (size_t c = 0; c < states_.size(); ++c) push(0, StepEventKind::kLayer, c);
    while (!events_.empty()) {
      const StepEvent event = events_.top();
      events_.pop();
      handle(event);
    }
    return result();
  }

 private:
  int rank_of(size_t coordinator) const { return ranks_.coordinators()[coordinator]; }
  const LayerFigures& figures(const CoordinatorState& state) const {
    return figures_.at(figures_.index(state.layer));
  }
  void push(double at_us, StepEventKind kind, size_t coordinator, int rank = 0) {
    events_.push({at_us, num_events_++, kind, coordinator, rank});
  }

  void handle(const StepEvent& event) {
    switch (event.kind) {
      case StepEventKind::kLayer:
        return begin_layer(event.at_us, event.coordinator);
      case StepEventKind::kDispatch:
        return dispatch(event.at_us, event.coordinator);
      case StepEventKind::kRows:
        return compute(event.at_us, event.coordinator, event.rank);
      case StepEventKind::kComputed:
        return answer(event.at_us, event.coordinator, event.rank);
    }
  }

  double cached(int rank) const { return cached_[static_cast<size_t>(rank)]; }

  // The rank's device does one thing after the other. Returns when `us` more are done.
  double run_on(int rank, double at_us, double us) {
    double& free = rank_free_us_[static_cast<size_t>(rank)];
    free = std::max(free, at_us) + us;
    return free;
  }

  void begin_layer(double now, size_t c) {
    CoordinatorState& state = states_[c];
    const OwnTimes& own = own_[c];
    if (state.layer == shape_.num_layers) {
      state.step.step_us = run_on(rank_of(c), now, own.head_us);
      state.step.head_us = state.step.step_us - now;
      return;
    }
    const double end = run_on(rank_of(c), now, own.layer_us());
    state.step.attention_us += end - now;
    state.step.dense_us += own.dense_us;
    state.step.context_us += own.attention_us;
    if (figures_.index(state.layer) >= 0) return push(end, StepEventKind::kDispatch, c);
    ++state.layer;
    push(end, StepEventKind::kLayer, c);
  }

  // What the links of a way take until a message is through, each being taken when it is free.
  double carry(std::span<const LinkUse> route, double now, double bytes) {
    double end = now;
    for (const LinkUse& use : route) {
      const double us = bytes / (ranks_.cluster().links[static_cast<size_t>(use.link)].gbps * 1e3);
      double& free = link_free_us_[{use.link, use.forward}];
      free = std::max(free, now) + us;
      link_busy_us_[{use.link, use.forward}] += us;
      end = std::max(end, free);
    }
    return end - now;
  }

  void dispatch(double now, size_t c) {
    CoordinatorState& state = states_[c];
    const LayerFigures& of_layer = figures(state);
    const int me = rank_of(c);
    state.sent_us = now;
    state.last = {};
    state.travels = travelling(in_, of_layer, me, 1);
    now += counts_us(in_, me);
    std::vector<std::pair<int, double>> arrivals;
    double latest = 0;
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const double rows = state.travels.rows[static_cast<size_t>(rank)];
      if (rank == me || rows <= 0) continue;
      const double bytes = rows * row_bytes(shape_, ranks_.is_gpu(me));
      row_bytes_ += bytes;
      const double links = carry(ranks_.route(me, rank), now, bytes);
      const double latency = ranks_.latency_us(me, rank);
      arrivals.emplace_back(rank, now + ranks_.exchange_us(me, latency, links, cached(me)));
      latest = std::max(latest, arrivals.back().second);
    }
    state.num_open = static_cast<int>(arrivals.size());
    for (const auto& [rank, at] : arrivals) {
      push(ranks_.is_gpu(me) ? latest : at, StepEventKind::kRows, c, rank);
    }
    state.own_done_us = run_on(me, now, own_[c].shared_us + experts_us(of_layer, me));
    if (state.num_open == 0) end_layer(c);
  }

  double experts_us(const LayerFigures& of_layer, int rank) {
    const auto at = static_cast<size_t>(rank);
    const double us = expert_us(shape_, ranks_.device(rank), of_layer.touched[at],
                                of_layer.pairs[at], cached(rank));
    rank_busy_us_[at] += us;
    return us;
  }

  void compute(double now, size_t c, int rank) {
    Answer& answer = states_[c].answers[static_cast<size_t>(rank)];
    const double us = experts_us(figures(states_[c]), rank);
    answer.rows_us = now;
    answer.begun_us = std::max(now, rank_free_us_[static_cast<size_t>(rank)]);
    answer.computed_us = run_on(rank, now, us);
    push(answer.computed_us, StepEventKind::kComputed, c, rank);
  }

  void answer(double now, size_t c, int rank) {
    CoordinatorState& state = states_[c];
    const auto at = static_cast<size_t>(rank);
    const int me = rank_of(c);
    const double bytes = state.travels.results[at] * result_bytes(shape_, ranks_.is_gpu(me));
    result_bytes_ += bytes;
    const double links = carry(ranks_.route(rank, me), now, bytes);
    Answer& answer = state.answers[at];
    answer.back_us = now + ranks_.exchange_us(me, ranks_.latency_us(rank, me), links, cached(me));
    answer.start_us =
        counts_us(in_, me) + 2 * (ranks_.exchange_us(me) + ranks_.latency_us(me, rank));
    if (answer.back_us > state.last.back_us) state.last = answer;
    if (--state.num_open == 0) end_layer(c);
  }

  // The time from the dispatch on, along the answer that came last, and own work that came later.
  void end_layer(size_t c) {
    CoordinatorState& state = states_[c];
    const Answer& last = state.last;
    double now = state.sent_us;
    const auto spend = [&now](double& us, double until) {
      us += until - now;
      now = until;
    };
    if (last.back_us > 0) {
      spend(state.step.dispatch_us, last.rows_us);
      spend(state.step.wait_us, last.begun_us);
      spend(state.step.experts_us, last.computed_us);
      spend(state.step.combine_us, last.back_us);
      state.step.start_us += last.start_us;
    }
    if (state.own_done_us > now) spend(state.step.own_us, state.own_done_us);
    ++state.layer;
    push(now, StepEventKind::kLayer, c);
  }

  SimulatedStep result() const {
    const auto last = std::max_element(states_.begin(), states_.end(),
                                       [](const CoordinatorState& a, const CoordinatorState& b) {
                                         return a.step.step_us < b.step.step_us;
                                       });
    SimulatedStep step = last->step;
    double most = 0;
    for (const auto& [use, busy] : link_busy_us_) {
      if (busy <= most) continue;
      most = busy;
      step.busiest_link = ranks_.link_name({use.first, use.second});
    }
    step.busiest_link_share = most / step.step_us;
    const auto rank = std::max_element(rank_busy_us_.begin(), rank_busy_us_.end());
    step.busiest_rank = static_cast<int>(rank - rank_busy_us_.begin());
    step.busiest_rank_share = *rank / step.step_us;
    step.row_bytes = row_bytes_;
    step.result_bytes = result_bytes_;
    return step;
  }

  const SimulatorInput& in_;
  const ModelShape& shape_;
  const RankMap& ranks_;
  FiguresOfLayers figures_;
  std::vector<double> cached_;                       // [R]
  std::vector<OwnTimes> own_;                        // [coordinators]
  std::vector<CoordinatorState> states_;             // [coordinators]
  std::vector<double> rank_free_us_, rank_busy_us_;  // [R]
  std::map<std::pair<int, bool>, double> link_free_us_, link_busy_us_;
  std::priority_queue<StepEvent, std::vector<StepEvent>, std::greater<>> events_;
  int num_events_ = 0;
  double row_bytes_ = 0, result_bytes_ = 0;
};

}  // namespace

SimulatedStep simulate_events(const SimulatorInput& input) { return Simulation(input).run(); }

}  // namespace colibri
