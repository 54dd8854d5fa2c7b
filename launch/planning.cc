#include "launch/planning.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "topology/gpu_memory_plan.h"
#include "topology/replan.h"

namespace colibri {
namespace {

bool is_coordinator(const RankMap& ranks, int rank) {
  const auto& list = ranks.coordinators();
  return std::find(list.begin(), list.end(), rank) != list.end();
}

// Rows and results of one layer's step, and on a coordinator activations of the same tokens.
double working_bytes(const PlanningInput& in) {
  const ModelShape& shape = *in.shape;
  return 4.0 * in.batch * static_cast<double>(shape.hidden_size) * (2.0 * shape.top_k + 8) +
         4.0 * in.batch * static_cast<double>(shape.vocab_size);
}

double fixed_bytes(const PlanningInput& in, int rank) {
  const RankMap& ranks = *in.ranks;
  const ModelShape& shape = *in.shape;
  double bytes = working_bytes(in);
  if (ranks.is_gpu(rank)) bytes += static_cast<double>(nccl_buffer_bytes(ranks.num_ranks()));
  if (!is_coordinator(ranks, rank)) return bytes;
  return bytes + static_cast<double>(shape.coordinator_weight_bytes) +
         in.batch * (in.context + 1) * static_cast<double>(shape.kv_bytes_per_token);
}

// Of a GPU all; of a NUMA node what its ranks share.
double memory_of(const RankMap& ranks, int rank) {
  if (ranks.is_gpu(rank)) return static_cast<double>(ranks.device(rank).memory_bytes);
  int sharers = 0;
  for (int other = 0; other < ranks.num_ranks(); ++other) {
    sharers += &ranks.part(other) == &ranks.part(rank) ? 1 : 0;
  }
  return static_cast<double>(ranks.part(rank).memory_bytes) / sharers;
}

class Planner {
 public:
  explicit Planner(const PlanningInput& input)
      : in_(input),
        capacity_(input.capacity_slots.empty() ? slots_that_fit(input) : input.capacity_slots),
        size_(decode_size(input.batch / static_cast<double>(input.ranks->coordinators().size()),
                          input.context)) {
    const ModelShape& shape = *in_.shape;
    shares_ = in_.loads == nullptr ? uniform_shares(shape) : loaded_shares(shape, *in_.loads);
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      pair_shares_.push_back(pair_shares(in_.loads, layer));
    }
  }

  Planning run() {
    Planning planning{.best = planned(first_rank0(), std::max(0, in_.num_replicas)),
                      .choices = {},
                      .reduced = {},
                      .contiguous = {},
                      .cost = {},
                      .contiguous_cost = {},
                      .capacity_slots = capacity_};
    planning.choices.push_back(planning.best);
    try_others(planning);
    for (const PlannedChoice& choice : planning.choices) {
      // Memory is not spent on less than a thousandth.
      if (choice.step.step_us < planning.best.step.step_us * (1 - 1e-3)) planning.best = choice;
    }
    finish(planning);
    return planning;
  }

 private:
  bool has_choice_of_rank0() const {
    return in_.rank0_holds < 0 && in_.ranks->num_ranks() > 1 && in_.previous == nullptr &&
           in_.ranks->coordinators().size() == 1;
  }
  bool first_rank0() const { return in_.rank0_holds == 1 || in_.ranks->coordinators().size() > 1; }

  PlanRequest request(bool rank0_holds, int num_replicas) const {
    return {.shape = in_.shape,
            .terms = nullptr,
            .shares = shares_,
            .pair_shares = pair_shares_,
            .num_replicas = num_replicas,
            .rank0_holds_experts = rank0_holds,
            .capacity_slots = capacity_,
            .domain_of_rank = domains(),
            .effort = in_.effort,
            .previous = in_.previous,
            .max_moves = in_.max_moves};
  }

  // Ranks of a node fail together; on one node each by itself.
  std::vector<int> domains() const {
    std::vector<int> list;
    if (in_.ranks->cluster().num_nodes() < 2) return list;
    for (int rank = 0; rank < in_.ranks->num_ranks(); ++rank) {
      list.push_back(in_.ranks->part(rank).node);
    }
    return list;
  }

  LayerTerms terms(bool rank0_holds) const {
    return layer_terms(*in_.shape, *in_.ranks,
                       {.size = size_, .coordinator_holds_experts = rank0_holds});
  }

  SimulatedStep simulated(const Placement& placement, bool adds_results) const {
    return simulate_step({.shape = in_.shape,
                          .ranks = in_.ranks,
                          .placement = &placement,
                          .shares = shares_,
                          .size = size_,
                          .adds_results = adds_results});
  }

  PlannedChoice planned(bool rank0_holds, int num_replicas) const {
    const LayerTerms with = terms(rank0_holds);
    PlanRequest wanted = request(rank0_holds, num_replicas);
    wanted.terms = &with;
    Plan plan = plan_placement(wanted);
    if (in_.survive > 0) check_survives_one(*in_.shape, plan.placement, capacity_);
    const SimulatedStep step = simulated(plan.placement, false);
    return {rank0_holds, num_replicas, std::move(plan), step};
  }

  // Replicas that have no room, or leave none for a lost rank, are no choice.
  void try_others(Planning& planning) {
    const int holders = std::max(1, in_.ranks->num_ranks() - 1);
    std::vector<int> replicas{std::max(0, in_.num_replicas)};
    if (in_.num_replicas < 0 && in_.previous == nullptr && in_.ranks->num_ranks() > 2) {
      for (const int each : {1, 2, 4}) replicas.push_back(each * holders);
    }
    for (const bool rank0 : {false, true}) {
      if (rank0 != first_rank0() && !has_choice_of_rank0()) continue;
      for (const int count : replicas) {
        if (rank0 == first_rank0() && count == replicas[0]) continue;  // the first
        try {
          planning.choices.push_back(planned(rank0, count));
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::kEnvironment) throw;
        }
      }
    }
  }

  void finish(Planning& planning) {
    const PlannedChoice& best = planning.best;
    planning.reduced = simulated(best.plan.placement, true);
    const LayerTerms with = terms(best.rank0_holds);
    PlanRequest wanted = request(best.rank0_holds, best.num_replicas);
    wanted.terms = &with;
    planning.cost = cost_of(wanted, best.plan.placement);
    PlacementOptions options{.num_ranks = in_.ranks->num_ranks(), .capacity_slots = capacity_};
    if (in_.ranks->coordinators().size() > 1) {
      options.coordinator_experts = in_.shape->num_experts / in_.ranks->num_ranks();
    }
    const Placement contiguous = contiguous_placement(*in_.shape, options);
    planning.contiguous = simulated(contiguous, false);
    planning.contiguous_cost = cost_of(wanted, contiguous);
  }

  const PlanningInput& in_;
  std::vector<int64_t> capacity_;
  StepSize size_;
  std::vector<std::vector<double>> shares_, pair_shares_;
};

}  // namespace

std::vector<int64_t> slots_that_fit(const PlanningInput& in) {
  std::vector<int64_t> slots;
  const int64_t all = int64_t{in.shape->num_moe_layers()} * in.shape->num_experts;
  for (int rank = 0; rank < in.ranks->num_ranks(); ++rank) {
    const double need = fixed_bytes(in, rank), have = memory_of(*in.ranks, rank);
    if (have < need) {
      fail(ErrorKind::kEnvironment, "rank ", rank, " needs ",
           format_bytes(static_cast<int64_t>(need)), " besides experts and its memory is ",
           format_bytes(static_cast<int64_t>(have)), ": ",
           format_bytes(static_cast<int64_t>(need - have)),
           " are missing; want a smaller batch, a shorter context or narrower weights");
    }
    const double fit = (have - need) / static_cast<double>(in.shape->expert_bytes);
    slots.push_back(std::min(all, static_cast<int64_t>(fit)));
  }
  return slots;
}

Planning make_plan(const PlanningInput& input) { return Planner(input).run(); }

}  // namespace colibri
