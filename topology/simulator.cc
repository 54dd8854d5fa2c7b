#include "topology/simulator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "base/error.h"

namespace colibri {
namespace {

enum class EventKind : uint8_t { kDispatch, kRows, kResults };

struct Event {
  double at_us = 0;
  int order = 0;  // between equal times: as they were made
  EventKind kind = EventKind::kDispatch;
  int coordinator = 0, rank = 0;  // coordinator: position in the list
  bool operator>(const Event& other) const {
    return std::tie(at_us, order) > std::tie(other.at_us, other.order);
  }
};

// One coordinator in one layer.
struct Turn {
  int layer = 0;
  int num_open = 0;  // ranks whose results are not here
  double sent_us = 0, ready_us = 0;
  double rows_us = 0, computed_us = 0;  // of the rank that came last
};

class Simulation {
 public:
  explicit Simulation(const SimulatorInput& input)
      : in_(input),
        shape_(*input.shape),
        ranks_(*input.ranks),
        work_(step_work(shape_, input.size)),
        turns_(ranks_.coordinators().size()),
        rank_free_us_(static_cast<size_t>(ranks_.num_ranks())),
        rank_busy_us_(rank_free_us_.size()) {
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      figures_.push_back(is_moe(layer) ? layer_figures(*in_.placement, layer, shares_of(layer),
                                                       in_.size.num_tokens)
                                       : LayerFigures{});
    }
  }

  SimulatedStep run() {
    for (size_t c = 0; c < turns_.size(); ++c) begin_layer(static_cast<int>(c), 0, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      switch (event.kind) {
        case EventKind::kDispatch:
          dispatch(event);
          break;
        case EventKind::kRows:
          compute(event);
          break;
        case EventKind::kResults:
          take_results(event);
          break;
      }
    }
    finish();
    return result_;
  }

 private:
  bool is_moe(int layer) const { return shape_.layer_is_moe[static_cast<size_t>(layer)]; }
  std::vector<double> shares_of(int layer) const {
    if (!in_.shares.empty()) return in_.shares[static_cast<size_t>(layer)];
    return std::vector<double>(static_cast<size_t>(shape_.num_experts),
                               static_cast<double>(shape_.top_k) / shape_.num_experts);
  }
  int rank_of(int coordinator) const {
    return ranks_.coordinators()[static_cast<size_t>(coordinator)];
  }
  void push(double at_us, EventKind kind, int coordinator, int rank = 0) {
    events_.push({at_us, num_events_++, kind, coordinator, rank});
  }

  // Attention, then the rows go; dense layers are passed at once.
  void begin_layer(int c, int layer, double at_us) {
    const DeviceSpec& device = ranks_.device(rank_of(c));
    for (; layer < shape_.num_layers; ++layer) {
      const double us = layer_us(shape_, work_, device);
      at_us += us;
      if (c == 0) result_.attention_us += us;
      if (!is_moe(layer)) continue;
      turns_[static_cast<size_t>(c)] = {.layer = layer};
      return push(at_us, EventKind::kDispatch, c);
    }
    const double us = head_us(shape_, work_, device);
    if (c == 0) result_.head_us = us;
    end_us_ = std::max(end_us_, at_us + us);
  }

  // The end of a message over all links of its way; each is taken when it is free.
  double carry(std::span<const LinkUse> route, double at_us, double bytes) {
    double end = at_us;
    for (const LinkUse& use : route) {
      const double us = bytes / (ranks_.cluster().links[static_cast<size_t>(use.link)].gbps * 1e3);
      double& free = link_free_us_[{use.link, use.forward}];
      free = std::max(free, at_us) + us;
      link_busy_us_[{use.link, use.forward}] += us;
      end = std::max(end, free);
    }
    return end;
  }

  void dispatch(const Event& event) {
    Turn& turn = turns_[static_cast<size_t>(event.coordinator)];
    const LayerFigures& figures = figures_[static_cast<size_t>(turn.layer)];
    const int me = rank_of(event.coordinator);
    turn.sent_us = event.at_us;
    turn.ready_us = turn.rows_us = turn.computed_us = event.at_us;
    const double posted = event.at_us + ranks_.exchange_us(me);
    std::vector<std::pair<int, double>> arrivals;
    double last = 0;
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const double rows = figures.rows[static_cast<size_t>(rank)];
      if (rows <= 0) continue;
      ++turn.num_open;
      if (rank == me) {  // runs beside the others' rows
        push(event.at_us, EventKind::kRows, event.coordinator, rank);
        continue;
      }
      const double bytes = rows * row_bytes(shape_, ranks_.is_gpu(me));
      result_.row_bytes += bytes;
      const double at = carry(ranks_.route(me, rank), posted, bytes) + ranks_.latency_us(me, rank);
      arrivals.emplace_back(rank, at);
      last = std::max(last, at);
    }
    for (const auto& [rank, at] : arrivals) {
      push(ranks_.is_gpu(me) ? last : at, EventKind::kRows, event.coordinator, rank);
    }
    if (turn.num_open == 0) begin_layer(event.coordinator, turn.layer + 1, event.at_us);
  }

  void compute(const Event& event) {
    const auto rank = static_cast<size_t>(event.rank);
    const Turn& turn = turns_[static_cast<size_t>(event.coordinator)];
    const LayerFigures& figures = figures_[static_cast<size_t>(turn.layer)];
    const double us =
        expert_us(shape_, ranks_.device(event.rank), figures.touched[rank], figures.pairs[rank]);
    const double done = std::max(event.at_us, rank_free_us_[rank]) + us;
    rank_free_us_[rank] = done;
    rank_busy_us_[rank] += us;
    const int me = rank_of(event.coordinator);
    note(event.coordinator, event.at_us, done);
    if (event.rank == me) return push(done, EventKind::kResults, event.coordinator, event.rank);
    const double results = in_.adds_results ? figures.rows[rank] : figures.pairs[rank];
    const double bytes = results * result_bytes(shape_, ranks_.is_gpu(me));
    result_.result_bytes += bytes;
    const double at = carry(ranks_.route(event.rank, me), done, bytes) +
                      ranks_.latency_us(event.rank, me) + ranks_.exchange_us(me);
    push(at, EventKind::kResults, event.coordinator, event.rank);
  }

  // Whose results come last decides: kept until take_results() knows.
  void note(int coordinator, double rows_us, double done_us) {
    Turn& turn = turns_[static_cast<size_t>(coordinator)];
    if (done_us < turn.computed_us) return;
    turn.rows_us = rows_us;
    turn.computed_us = done_us;
  }

  void take_results(const Event& event) {
    Turn& turn = turns_[static_cast<size_t>(event.coordinator)];
    turn.ready_us = std::max(turn.ready_us, event.at_us);
    if (--turn.num_open > 0) return;
    if (event.coordinator == 0) {
      result_.dispatch_us += turn.rows_us - turn.sent_us;
      result_.experts_us += turn.computed_us - turn.rows_us;
      result_.combine_us += turn.ready_us - turn.computed_us;
    }
    begin_layer(event.coordinator, turn.layer + 1, turn.ready_us);
  }

  void finish() {
    result_.step_us = end_us_;
    double most = 0;
    for (const auto& [use, busy] : link_busy_us_) {
      if (busy <= most) continue;
      most = busy;
      result_.busiest_link = ranks_.link_name({use.first, use.second});
    }
    result_.busiest_link_share = most / end_us_;
    const auto rank = std::max_element(rank_busy_us_.begin(), rank_busy_us_.end());
    result_.busiest_rank = static_cast<int>(rank - rank_busy_us_.begin());
    result_.busiest_rank_share = *rank / end_us_;
  }

  const SimulatorInput& in_;
  const ModelShape& shape_;
  const RankMap& ranks_;
  StepWork work_;
  std::vector<LayerFigures> figures_;  // [L]
  std::vector<Turn> turns_;            // [coordinators]
  std::vector<double> rank_free_us_, rank_busy_us_;
  std::map<std::pair<int, bool>, double> link_free_us_, link_busy_us_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int num_events_ = 0;
  double end_us_ = 0;
  SimulatedStep result_;
};

// Every rank a coordinator: all act alike.
SimulatedStep simulate_symmetric(const SimulatorInput& in) {
  const ModelShape& shape = *in.shape;
  const RankMap& ranks = *in.ranks;
  const StepWork work = step_work(shape, in.size);
  const LayerTerms terms =
      layer_terms(shape, ranks, {.size = in.size, .adds_results = in.adds_results});
  SimulatedStep result;
  std::map<std::string, double> link_us;
  std::vector<double> rank_us(static_cast<size_t>(ranks.num_ranks()));
  double own_us = 0;
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    own_us = std::max(own_us, layer_us(shape, work, ranks.device(rank)));
    result.head_us = std::max(result.head_us, head_us(shape, work, ranks.device(rank)));
  }
  double latency_us = 0;
  for (int rank = 1; rank < ranks.num_ranks(); ++rank) {
    latency_us = std::max(latency_us, ranks.latency_us(0, rank));
  }
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    result.attention_us += own_us;
    if (!shape.layer_is_moe[static_cast<size_t>(layer)]) continue;
    const std::vector<double> shares =
        in.shares.empty()
            ? std::vector<double>(static_cast<size_t>(shape.num_experts),
                                  static_cast<double>(shape.top_k) / shape.num_experts)
            : in.shares[static_cast<size_t>(layer)];
    const LayerFigures figures = layer_figures(*in.placement, layer, shares, terms.num_tokens);
    const LayerTime time = layer_time(terms, figures);
    double slowest = 0;
    for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
      const auto at = static_cast<size_t>(rank);
      const double us =
          expert_us(shape, ranks.device(rank), figures.touched[at], figures.pairs[at]);
      rank_us[at] += us;
      slowest = std::max(slowest, us);
      result.row_bytes += figures.rows[at] * row_bytes(shape, ranks.is_gpu(rank));
      result.result_bytes += (in.adds_results ? figures.rows[at] : figures.pairs[at]) *
                             result_bytes(shape, ranks.is_gpu(rank));
    }
    result.experts_us += slowest;
    result.dispatch_us += time.dispatch_us + terms.exchange_us / 2 + latency_us;
    result.combine_us += time.combine_us + terms.exchange_us / 2 + latency_us;
    if (time.busiest_combine_link >= 0) {
      link_us[terms.combine_links[static_cast<size_t>(time.busiest_combine_link)].name] +=
          time.combine_us;
    }
  }
  result.step_us = result.attention_us + result.experts_us + result.dispatch_us +
                   result.combine_us + result.head_us;
  for (const auto& [name, us] : link_us) {
    if (us / result.step_us <= result.busiest_link_share) continue;
    result.busiest_link = name;
    result.busiest_link_share = us / result.step_us;
  }
  const auto rank = std::max_element(rank_us.begin(), rank_us.end());
  result.busiest_rank = static_cast<int>(rank - rank_us.begin());
  result.busiest_rank_share = *rank / result.step_us;
  return result;
}

}  // namespace

SimulatedStep simulate_step(const SimulatorInput& input) {
  const auto coordinators = static_cast<int>(input.ranks->coordinators().size());
  if (coordinators > 1 && coordinators == input.ranks->num_ranks()) {
    return simulate_symmetric(input);
  }
  return Simulation(input).run();
}

double SimulatedStep::tokens_per_s(const SimulatorInput& input) const {
  const auto coordinators = static_cast<double>(input.ranks->coordinators().size());
  return step_us > 0 ? 1e6 * input.size.num_tokens * coordinators / step_us : 0;
}

std::string SimulatedStep::bottleneck() const {
  const double own = (attention_us + head_us) / std::max(step_us, 1e-9);
  const double exchange = (dispatch_us + combine_us) / std::max(step_us, 1e-9);
  const double experts = experts_us / std::max(step_us, 1e-9);
  if (own >= exchange && own >= experts) return "attention of rank 0";
  if (experts >= exchange) return "experts on rank " + std::to_string(busiest_rank);
  const bool is_bytes = busiest_link_share > exchange / 4;
  return is_bytes ? "link " + busiest_link : "latency of the exchange";
}

}  // namespace colibri
