#include "topology/simulator.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "topology/gpu_memory_plan.h"
#include "topology/simulator_layers.h"

namespace colibri {
namespace {

constexpr double kGpuWorkspaceBytes = 4e9;

double holder_count(const StepRanks& ranks) {
  return static_cast<double>(ranks.parts.size() > ranks.coordinators.size()
                                 ? ranks.parts.size() - ranks.coordinators.size()
                                 : ranks.parts.size());
}

void check_run(const StepRun& run) {
  if (run.placement.num_ranks() == static_cast<int>(run.ranks.parts.size())) return;
  fail(ErrorKind::kInput, "the placement is for ", run.placement.num_ranks(),
       " ranks, the step for ", run.ranks.parts.size());
}

std::set<std::string> kinds_between(const StepRanks& ranks) {
  const ClusterRoutes routes(ranks.cluster, ranks.parts);
  std::set<std::string> kinds;
  for (const int source : ranks.coordinators) {
    for (size_t rank = 0; rank < ranks.parts.size(); ++rank) {
      for (const LinkUse& use : routes.between(static_cast<size_t>(source), rank)) {
        kinds.insert(ranks.cluster.links[static_cast<size_t>(use.link)].kind);
      }
    }
  }
  return kinds;
}

}  // namespace

const char* to_string(StepStage stage) {
  switch (stage) {
    case StepStage::kDense:
      return "projections";
    case StepStage::kAttention:
      return "attention";
    case StepStage::kElementwise:
      return "norms and router";
    case StepStage::kOwnExperts:
      return "own experts";
    case StepStage::kDispatch:
      return "dispatch";
    case StepStage::kQueue:
      return "rows wait";
    case StepStage::kExperts:
      return "experts";
    case StepStage::kCombine:
      return "combine";
    case StepStage::kHead:
      return "head";
    case StepStage::kPicking:
      return "picking";
  }
  fail(ErrorKind::kInternal, "Stage value ", static_cast<int>(stage));
}

SimulatedStep simulate_step(const StepRun& run) {
  check_run(run);
  SimulatedStep step = run.ranks.is_symmetric() ? simulate_symmetric(run) : simulate_events(run);
  step.bottleneck = bottleneck_text(run, step);
  return step;
}

std::vector<PartMemory> step_memory(const StepRun& run) {
  check_run(run);
  const StepRanks& ranks = run.ranks;
  const double share = 1 / static_cast<double>(ranks.coordinators.size());
  std::map<int, size_t> place;  // of a part in the list
  std::vector<PartMemory> parts;
  for (size_t rank = 0; rank < ranks.parts.size(); ++rank) {
    const DeviceSpec& device = ranks.device(rank);
    const auto [at, is_new] = place.try_emplace(ranks.parts[rank], parts.size());
    if (is_new) {
      parts.push_back({ranks.cluster.parts[static_cast<size_t>(ranks.parts[rank])].name, 0,
                       static_cast<double>(device.memory_bytes)});
    }
    double& need = parts[at->second].need_bytes;
    need += static_cast<double>(run.placement.num_slots(static_cast<int>(rank))) *
            static_cast<double>(run.shape.expert_bytes);
    if (device.is_gpu) {
      need += kGpuWorkspaceBytes +
              static_cast<double>(nccl_buffer_bytes(static_cast<int>(ranks.parts.size())));
    }
    if (!std::binary_search(ranks.coordinators.begin(), ranks.coordinators.end(),
                            static_cast<int>(rank))) {
      continue;
    }
    need += static_cast<double>(run.shape.coordinator_weight_bytes) +
            share * run.step.kv_reads * static_cast<double>(run.shape.kv_bytes_per_token);
  }
  return parts;
}

std::vector<StepChange> link_sensitivity(const StepRun& run) {
  const double now = simulate_step(run).total_us;
  std::vector<StepChange> changes;
  for (const std::string& kind : kinds_between(run.ranks)) {
    Cluster cluster = run.ranks.cluster;
    for (ClusterLink& link : cluster.links) {
      if (link.kind == kind) link.gbps *= 2;
    }
    const StepRanks ranks{cluster, run.ranks.parts, run.ranks.coordinators};
    const StepRun faster{run.shape, ranks,       run.placement,   run.loads,
                         run.step,  run.formats, run.adds_results};
    changes.push_back({kind + " twice as fast", simulate_step(faster).total_us / now - 1});
  }
  return changes;
}

Placement spread_placement(const ModelShape& shape, const StepRanks& ranks, bool is_round_robin) {
  const auto num_ranks = ranks.parts.size();
  std::vector<size_t> holders;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const bool coordinates = std::binary_search(ranks.coordinators.begin(),
                                                ranks.coordinators.end(), static_cast<int>(rank));
    if (!coordinates || ranks.is_symmetric()) holders.push_back(rank);
  }
  ExpertLists lists(static_cast<size_t>(shape.num_layers));
  const auto experts = static_cast<size_t>(shape.num_experts);
  for (size_t layer = 0; layer < lists.size(); ++layer) {
    lists[layer].resize(num_ranks);
    if (!shape.layer_is_moe[layer]) continue;
    for (size_t expert = 0; expert < experts; ++expert) {
      const size_t holder =
          is_round_robin ? expert % holders.size() : expert * holders.size() / experts;
      lists[layer][holders[holder]].push_back(static_cast<int32_t>(expert));
    }
  }
  return {shape, static_cast<int>(num_ranks), lists};
}

const LayerFigures& FiguresOfLayers::of(int layer, bool& is_new) {
  is_new = last_layer_ < 0 || !same_as_last(layer);
  if (is_new) {
    const std::vector<double> shares = expert_shares(run_.loads, run_.shape, layer);
    const LayerLoads* pairs =
        run_.loads == nullptr ? nullptr : &run_.loads->of(LoadPhase::kDecode, layer);
    figures_ = layer_figures(run_.placement, layer, shares, pairs, num_tokens_);
  }
  last_layer_ = layer;
  return figures_;
}

bool FiguresOfLayers::same_as_last(int layer) const {
  if (run_.loads != nullptr) return false;
  for (int rank = 0; rank < run_.placement.num_ranks(); ++rank) {
    const auto now = run_.placement.experts_of(layer, rank);
    const auto before = run_.placement.experts_of(last_layer_, rank);
    if (!std::equal(now.begin(), now.end(), before.begin(), before.end())) return false;
  }
  return true;
}

double exchange_start_us(const StepRanks& ranks) {
  const auto peers = static_cast<int>(ranks.parts.size()) - 1;
  double start = 0;
  for (size_t rank = 0; peers > 0 && rank < ranks.parts.size(); ++rank) {
    start = std::max(start, ranks.device(rank).exchange_start_us(peers));
  }
  return start;
}

double exchange_tail_factor(const StepRanks& ranks) {
  const auto peers = static_cast<double>(ranks.parts.size()) - 1;
  return peers > 0 ? 1 + ranks.device(0).exchange_tail / peers : 1;
}

namespace {

const char* limit_of(const OpCost& cost, const OpUse& use) {
  const double reading = cost.gbps > 0 ? use.bytes / (cost.gbps * 1e3) : 0;
  const double computing = cost.gops > 0 ? use.operations / (cost.gops * 1e3) : 0;
  if (cost.fixed_us > std::max(reading, computing)) return "starting operations";
  return reading > computing ? "reading memory" : "computing";
}

std::string op_text(const StepRun& run, StepStage stage, size_t rank, const OpUse& use) {
  const auto part = static_cast<size_t>(run.ranks.parts[rank]);
  return std::string(to_string(stage)) + " on " + run.ranks.cluster.parts[part].name + ": " +
         limit_of(run.ranks.device(rank).cost(use.kind, use.is_narrow), use);
}

std::string exchange_text(const StepRun& run, const SimulatedStep& step, StepStage stage) {
  const double starts = run.shape.num_moe_layers() * exchange_start_us(run.ranks);
  if (step.us(stage) < 2 * starts || step.busiest_link.empty()) {
    return std::string(to_string(stage)) + ": starting exchanges";
  }
  return std::string(to_string(stage)) + " over " + step.busiest_link;
}

}  // namespace

std::string bottleneck_text(const StepRun& run, const SimulatedStep& step) {
  const auto most = std::max_element(step.stage_us.begin(), step.stage_us.end());
  const auto stage = static_cast<StepStage>(most - step.stage_us.begin());
  const auto first = static_cast<size_t>(run.ranks.coordinators[0]);
  const double share = 1 / static_cast<double>(run.ranks.coordinators.size());
  const CoordinatorOps ops = coordinator_ops(run.shape, run.formats, run.step, share);
  const double holders = holder_count(run.ranks);
  const double sources = run.ranks.is_symmetric() ? 1 : share;
  const double pairs = run.step.num_tokens * sources * run.shape.top_k / holders;
  const double touched = std::min(pairs, run.shape.num_experts / holders);
  switch (stage) {
    case StepStage::kDense:
      return op_text(run, stage, first, ops.dense);
    case StepStage::kAttention:
      return op_text(run, stage, first, ops.attention);
    case StepStage::kElementwise:
      return op_text(run, stage, first, ops.elementwise);
    case StepStage::kOwnExperts:
      return op_text(run, stage, first, ops.shared);
    case StepStage::kDispatch:
    case StepStage::kCombine:
      return exchange_text(run, step, stage);
    case StepStage::kQueue:
    case StepStage::kExperts:
      return op_text(run, stage, static_cast<size_t>(step.slowest_rank),
                     expert_op(run.shape, run.formats, touched, pairs));
    case StepStage::kHead:
      return op_text(run, stage, first, ops.head);
    case StepStage::kPicking:
      return op_text(run, stage, first, ops.picking);
  }
  fail(ErrorKind::kInternal, "Stage value ", static_cast<int>(stage));
}

}  // namespace colibri
