// Plans against EPLB's as tables for docs/placement.md, and how long a plan takes.
//
//   planner_bench [seeds]     default 20; 0: how long a plan takes, and no more
//
// All figures but the last table's milliseconds are the same on every machine.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/topology/planner_cases.h"
#include "tests/topology/planner_scores.h"
#include "topology/cluster_file.h"
#include "topology/rank_map.h"

namespace colibri {
namespace {

constexpr double kSkews[] = {0.3, 0.6, 0.9, 1.2};

void print_balance(int num_seeds) {
  std::printf(
      "| case | s | contiguous | EPLB | plan | gap to bound | EPLB, held out | plan, held "
      "out | difference | duplicates of EPLB |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const EplbCase& c : eplb_cases()) {
    for (const double s : kSkews) {
      const BalanceScore score = balance_score(c, s, num_seeds);
      std::printf(
          "| %s | %.1f | %.3f | %.4f | %.4f | %.2f %% | %.4f | %.4f | %+.4f ± %.4f | %.2f |\n",
          c.name().c_str(), s, score.contiguous, score.balance.theirs, score.balance.ours,
          100 * score.gap, score.held_out.theirs, score.held_out.ours,
          score.held_out.ours - score.held_out.theirs, score.held_out_error,
          score.duplicates.theirs);
    }
  }
}

void print_links(int num_seeds) {
  std::printf(
      "\n| machine | s | balance EPLB | plan at that balance | us across EPLB | plan at that "
      "balance | layer us "
      "EPLB | plan for time | links left out | its balance | us across |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const LinkCase& c : link_cases()) {
    for (const double s : kSkews) {
      const LinkScore score = link_score(c, s, num_seeds);
      std::printf("| %s | %.1f | %.4f | %.4f | %.1f | %.1f | %.1f | %.1f | %.1f | %.3f | %.1f |\n",
                  c.machine.c_str(), s, score.balance.theirs, score.balance.ours,
                  score.cross_us.theirs, score.cross_us.ours, score.predicted_us.theirs,
                  score.predicted_us.ours, score.without_links_us, score.planned_balance,
                  score.planned_cross_us);
    }
  }
}

// Processor time of one plan of 58 layers, the best and the median of nine.
void print_time(const char* machine, double s, double batch, bool with_pairs) {
  constexpr int kLayers = 58;
  ModelShape shape = plan_shape(256, 8, kLayers);
  shape.hidden_size = 7168;
  shape.expert_width = 2048;
  shape.expert_bytes = shape.expert_macs();
  const Cluster cluster = find_cluster(machine);
  const int num_ranks = static_cast<int>(cluster.parts_of(PartKind::kGpu).size());
  const RankMap ranks(cluster, default_rank_parts(cluster, num_ranks, false), {0});
  const LayerTerms terms = layer_terms(
      shape, ranks, {.size = decode_size(batch, 2048), .coordinator_holds_experts = true});
  ExpertLoads loads = empty_loads(shape, with_pairs);
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto seed = static_cast<uint64_t>(layer);
    loads.phases[1][static_cast<size_t>(layer)] =
        sampled_layer(zipf_weights(256, s, seed), 8, 4096, seed + 100, with_pairs);
  }
  PlanRequest request{shape, terms, &loads};
  request.capacity_slots.assign(static_cast<size_t>(num_ranks), kLayers * (256 / num_ranks + 1));
  std::vector<double> ms;
  double planned_us = 0;
  for (int i = 0; i < 9; ++i) {
    const std::clock_t start = std::clock();
    planned_us = plan_placement(request).predicted_us;
    ms.push_back(1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::sort(ms.begin(), ms.end());
  std::printf("| %s | %d | %.1f | %.0f | %s | %.0f | %.0f | %.0f |\n", machine, num_ranks, s, batch,
              with_pairs ? "yes" : "no", ms.front(), ms[ms.size() / 2], planned_us);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  const int num_seeds = argc > 1 ? std::atoi(argv[1]) : 20;
  if (num_seeds > 0) {
    print_balance(num_seeds);
    print_links(num_seeds);
  }
  std::printf(
      "\n| machine | ranks | s | batch | pairs | best ms | median ms | planned us |\n"
      "|---|---|---|---|---|---|---|---|\n");
  print_time("4x8xh200-400g", 0.6, 256, false);
  print_time("4x8xh200-400g", 0.6, 256, true);
  for (const char* machine : {"8xh200", "8xa100-pcie"}) {
    print_time(machine, 0.6, 256, false);
    print_time(machine, 0.6, 256, true);
  }
}
