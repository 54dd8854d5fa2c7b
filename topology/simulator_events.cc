#include <algorithm>
#include <queue>

#include "topology/simulator_layers.h"

namespace colibri {
namespace {

enum class EventKind : uint8_t {
  kLayer,    // a coordinator begins a layer
  kPost,     // it has routed its tokens
  kArrived,  // rows are at a rank
  kDone,     // the rank has computed them
};

struct Event {
  double at_us = 0;
  int64_t number = 0;  // of equal times the one that was made first
  EventKind kind = EventKind::kLayer;
  size_t coordinator = 0, rank = 0;
  bool operator>(const Event& other) const {
    return at_us != other.at_us ? at_us > other.at_us : number > other.number;
  }
};

// One answer of a rank, or none yet.
struct Answer {
  double posted = 0, arrived = 0, started = 0, done = 0, back = 0;
  size_t rank = 0;
};

struct Coordinator {
  int rank = 0, layer = 0;
  double own_done = 0;  // shared expert and own slots
  size_t num_waiting = 0;
  std::vector<Answer> answers;  // [R] of this layer
  Answer last;
  std::array<double, kNumStepStages> stage_us = {};
  std::vector<int> waited_for;  // [R] how often
  double ended = 0;
};

class Events {
 public:
  explicit Events(const StepRun& run)
      : run_(run),
        num_ranks_(run.ranks.parts.size()),
        share_(1 / static_cast<double>(run.ranks.coordinators.size())),
        ops_(coordinator_ops(run.shape, run.formats, run.step, share_)),
        routes_(run.ranks.cluster, run.ranks.parts),
        figures_(run, run.step.num_tokens * share_),
        start_us_(exchange_start_us(run.ranks)),
        tail_(exchange_tail_factor(run.ranks)),
        link_free_(2 * run.ranks.cluster.links.size(), 0),
        link_us_(link_free_.size(), 0),
        rank_free_(num_ranks_, 0) {
    figures_of_layer_.resize(static_cast<size_t>(run.shape.num_layers));
    for (const int rank : run.ranks.coordinators) {
      Coordinator coordinator;
      coordinator.rank = rank;
      coordinator.answers.resize(num_ranks_);
      coordinator.waited_for.assign(num_ranks_, 0);
      coordinators_.push_back(coordinator);
    }
  }

  SimulatedStep run() {
    make_figures();
    for (size_t c = 0; c < coordinators_.size(); ++c) push(0, EventKind::kLayer, c, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    return result();
  }

 private:
  void make_figures() {
    for (size_t layer = 0; layer < figures_of_layer_.size(); ++layer) {
      if (!run_.shape.layer_is_moe[layer]) continue;
      bool is_new = true;
      const LayerFigures& figures = figures_.of(static_cast<int>(layer), is_new);
      if (is_new) distinct_.push_back(figures);
      figures_of_layer_[layer] = distinct_.size() - 1;
    }
  }

  const LayerFigures& figures(const Coordinator& c) const {
    return distinct_[figures_of_layer_[static_cast<size_t>(c.layer)]];
  }

  void push(double at_us, EventKind kind, size_t coordinator, size_t rank) {
    events_.push({at_us, next_number_++, kind, coordinator, rank});
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case EventKind::kLayer:
        return begin_layer(event.at_us, event.coordinator);
      case EventKind::kPost:
        return post(event.at_us, event.coordinator);
      case EventKind::kArrived:
        return compute(event.at_us, event.coordinator, event.rank);
      case EventKind::kDone:
        return answer(event.at_us, event.coordinator, event.rank);
    }
  }

  const DeviceSpec& device(const Coordinator& c) const {
    return run_.ranks.device(static_cast<size_t>(c.rank));
  }

  // Runs on the coordinator's device once it is free; returns when it ends.
  double run_op(Coordinator& c, StepStage stage, const OpUse& use, double at_us) {
    double& free = rank_free_[static_cast<size_t>(c.rank)];
    const double begin = std::max(at_us, free);
    free = begin + use.us(device(c));
    c.stage_us[static_cast<size_t>(stage)] += free - at_us;
    return free;
  }

  void begin_layer(double now, size_t index) {
    Coordinator& c = coordinators_[index];
    if (c.layer == run_.shape.num_layers) {
      now = run_op(c, StepStage::kHead, ops_.head, now);
      c.ended = run_op(c, StepStage::kPicking, ops_.picking, now);
      return;
    }
    now = run_op(c, StepStage::kDense, ops_.dense, now);
    now = run_op(c, StepStage::kAttention, ops_.attention, now);
    now = run_op(c, StepStage::kElementwise, ops_.elementwise, now);
    if (run_.shape.layer_is_moe[static_cast<size_t>(c.layer)]) {
      push(now, EventKind::kPost, index, 0);
    } else {
      ++c.layer;
      push(now, EventKind::kLayer, index, 0);
    }
  }

  // When the last byte of a message that is posted now has passed all links of its way.
  double pass_links(std::span<const LinkUse> way, double bytes, double now) {
    double head = now, end = now;
    for (const LinkUse& use : way) {
      const ClusterLink& link = run_.ranks.cluster.links[static_cast<size_t>(use.link)];
      const auto at = 2 * static_cast<size_t>(use.link) + (use.forward ? 1 : 0);
      const double begin = std::max(head, link_free_[at]);
      const double us = bytes / (link.gbps * 1e3) * tail_;
      link_free_[at] = begin + us;
      link_us_[at] += us;
      head = begin + link.latency_us;
      end = std::max(end, begin + us) + link.latency_us;
    }
    return end;
  }

  double send(size_t from, size_t to, double bytes, double now) {
    const double latency = routes_.latency_us(from, to);
    const double links = pass_links(routes_.between(from, to), bytes, now) - now - latency;
    return now + run_.ranks.device(from).exchange_total_us(start_us_ + latency, links);
  }

  void post(double now, size_t index) {
    Coordinator& c = coordinators_[index];
    const LayerFigures& of_layer = figures(c);
    const auto self = static_cast<size_t>(c.rank);
    c.num_waiting = 0;
    c.last = {};
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      if (rank == self || of_layer.rows[rank] <= 0) continue;
      ++c.num_waiting;
      c.answers[rank] = {};
      c.answers[rank].posted = now;
      c.answers[rank].rank = rank;
      const double bytes = of_layer.rows[rank] * run_.formats.row_bytes;
      push(send(self, rank, bytes, now), EventKind::kArrived, index, rank);
    }
    // On its own device meanwhile.
    double& free = rank_free_[self];
    const OpUse own =
        expert_op(run_.shape, run_.formats, of_layer.touched[self], of_layer.pairs[self]);
    free = std::max(free, now) + ops_.shared.us(device(c)) + own.us(device(c));
    c.own_done = free;
    if (c.num_waiting == 0) end_layer(c, index, now);
  }

  void compute(double now, size_t index, size_t rank) {
    Coordinator& c = coordinators_[index];
    Answer& answer = c.answers[rank];
    const LayerFigures& of_layer = figures(c);
    answer.arrived = now;
    answer.started = std::max(now, rank_free_[rank]);
    answer.done = answer.started +
                  expert_op(run_.shape, run_.formats, of_layer.touched[rank], of_layer.pairs[rank])
                      .us(run_.ranks.device(rank));
    rank_free_[rank] = answer.done;
    push(answer.done, EventKind::kDone, index, rank);
  }

  void answer(double now, size_t index, size_t rank) {
    Coordinator& c = coordinators_[index];
    const LayerFigures& of_layer = figures(c);
    const double results = run_.adds_results ? of_layer.rows[rank] : of_layer.pairs[rank];
    Answer& answer = c.answers[rank];
    answer.back = send(rank, static_cast<size_t>(c.rank), results * run_.formats.result_bytes, now);
    if (answer.back > c.last.back) c.last = answer;
    if (--c.num_waiting == 0) end_layer(c, index, c.last.posted);
  }

  // `posted` is when the messages of this layer went out, or would have.
  void end_layer(Coordinator& c, size_t index, double posted) {
    const Answer& last = c.last;
    double now = posted;
    const auto spend = [&](StepStage stage, double until) {
      c.stage_us[static_cast<size_t>(stage)] += until - now;
      now = until;
    };
    if (last.back > posted) {
      ++c.waited_for[last.rank];
      spend(StepStage::kDispatch, last.arrived);
      spend(StepStage::kQueue, last.started);
      spend(StepStage::kExperts, last.done);
      spend(StepStage::kCombine, last.back);
    }
    if (c.own_done > now) spend(StepStage::kOwnExperts, c.own_done);
    now = run_op(c, StepStage::kCombine, ops_.combine, now);
    ++c.layer;
    push(now, EventKind::kLayer, index, 0);
  }

  SimulatedStep result() const {
    SimulatedStep step;
    const auto last = std::max_element(
        coordinators_.begin(), coordinators_.end(),
        [](const Coordinator& a, const Coordinator& b) { return a.ended < b.ended; });
    step.total_us = last->ended;
    step.stage_us = last->stage_us;
    const auto& counts = last->waited_for;
    step.slowest_rank =
        static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    const auto most = std::max_element(link_us_.begin(), link_us_.end());
    if (most == link_us_.end() || *most <= 0) return step;
    step.busiest_link_us = *most;
    step.busiest_link = link_name(static_cast<size_t>(most - link_us_.begin()));
    return step;
  }

  std::string link_name(size_t at) const {
    const ClusterLink& link = run_.ranks.cluster.links[at / 2];
    const auto name = [&](int part) {
      return run_.ranks.cluster.parts[static_cast<size_t>(part)].name;
    };
    return at % 2 == 1 ? name(link.a) + " > " + name(link.b) + " (" + link.kind + ")"
                       : name(link.b) + " > " + name(link.a) + " (" + link.kind + ")";
  }

  const StepRun& run_;
  size_t num_ranks_;
  double share_;  // of the tokens, of one coordinator
  CoordinatorOps ops_;
  ClusterRoutes routes_;
  FiguresOfLayers figures_;
  std::vector<LayerFigures> distinct_;
  std::vector<size_t> figures_of_layer_;  // [L] into distinct_
  double start_us_, tail_;
  std::vector<double> link_free_, link_us_;  // [2 links]: odd entries from a to b
  std::vector<double> rank_free_;            // [R] when the device has nothing more to do
  std::vector<Coordinator> coordinators_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t next_number_ = 0;
};

}  // namespace

SimulatedStep simulate_events(const StepRun& run) { return Events(run).run(); }

}  // namespace colibri
