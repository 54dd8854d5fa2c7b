// Plans against EPLB's as tables for docs/placement.md, and how long a plan takes.
//
//   planner_bench [seeds [first]]     default 20 from 0 on; 0: how long a plan takes, and no more
//   planner_bench demo FILE...        loads of configs/models/demo: 20 times half of the files,
//   drawn
//                                     at random, to plan by and the others to score by
//
// All figures but the last table's milliseconds are the same on every machine.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "tests/topology/planner_cases.h"
#include "tests/topology/planner_scores.h"
#include "topology/cluster_file.h"
#include "topology/rank_map.h"

namespace colibri {
namespace {

constexpr double kSkews[] = {0.3, 0.6, 0.9, 1.2};

void print_balance(Seeds seeds) {
  std::printf(
      "| case | s | contiguous | EPLB | plan | gap to bound | EPLB, held out | plan, held "
      "out | difference | duplicates of EPLB |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const EplbCase& c : eplb_cases()) {
    for (const double s : kSkews) {
      const BalanceScore score = balance_score(c, s, seeds);
      std::printf(
          "| %s | %.1f | %.3f | %.4f | %.4f | %.2f %% | %.4f | %.4f | %+.4f ± %.4f | %.2f |\n",
          c.name().c_str(), s, score.contiguous, score.balance.theirs, score.balance.ours,
          100 * score.gap, score.held_out.theirs, score.held_out.ours,
          score.held_out.ours - score.held_out.theirs, score.held_out_error,
          score.duplicates.theirs);
    }
  }
}

void print_links(Seeds seeds) {
  std::printf(
      "\n| machine | s | balance EPLB | plan at that balance | us across EPLB | plan at that "
      "balance | layer us "
      "EPLB | plan for time | links left out | its balance | us across |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const LinkCase& c : link_cases()) {
    for (const double s : kSkews) {
      const LinkScore score = link_score(c, s, seeds);
      std::printf("| %s | %.1f | %.4f | %.4f | %.1f | %.1f | %.1f | %.1f | %.1f | %.3f | %.1f |\n",
                  c.cluster.name.c_str(), s, score.balance.theirs, score.balance.ours,
                  score.cross_us.theirs, score.cross_us.ours, score.predicted_us.theirs,
                  score.predicted_us.ours, score.without_links_us, score.planned_balance,
                  score.planned_cross_us);
    }
  }
}

// Half of the files, drawn by `seed`, against the others.
RecordedScore split_score(const std::vector<ExpertLoads>& files, uint64_t seed, int num_ranks,
                          int spare) {
  std::vector<size_t> order(files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Draws draws(seed + 9000);
  for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[draws.below(n)]);
  const size_t half = order.size() / 2;
  ExpertLoads by = files[order[0]], held = files[order[half]];
  for (size_t i = 1; i < half; ++i) merge_loads(by, files[order[i]], 1);
  for (size_t i = half + 1; i < order.size(); ++i) merge_loads(held, files[order[i]], 1);
  return recorded_score(by, held, num_ranks, spare);
}

void print_demo(const std::vector<std::string>& paths) {
  constexpr int kSplits = 20;
  std::vector<ExpertLoads> files;
  for (const std::string& path : paths) files.push_back(read_demo_loads(path));
  std::printf(
      "| ranks | slots | EPLB | plan | EPLB, held out | plan, held out | difference | us across "
      "EPLB "
      "| plan at that balance | duplicates of EPLB |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int num_ranks : {2, 4, 8}) {
    for (const int spare : {0, 1, 2}) {
      std::vector<RecordedScore> scores;
      for (uint64_t seed = 0; seed < kSplits; ++seed) {
        scores.push_back(split_score(files, seed, num_ranks, spare));
      }
      const auto mean = [&](auto figure) {
        double sum = 0;
        for (const RecordedScore& score : scores) sum += figure(score) / kSplits;
        return sum;
      };
      const auto gain = [](const RecordedScore& s) { return s.held_out.ours - s.held_out.theirs; };
      const double more = mean(gain);
      const double variance =
          mean([&](const RecordedScore& s) { return (gain(s) - more) * (gain(s) - more); });
      std::printf("| %d | %d | %.4f | %.4f | %.4f | %.4f | %+.4f ± %.4f | %.2f | %.2f | %.2f |\n",
                  num_ranks, kDemoExperts + spare * num_ranks,
                  mean([](const RecordedScore& s) { return s.balance.theirs; }),
                  mean([](const RecordedScore& s) { return s.balance.ours; }),
                  mean([](const RecordedScore& s) { return s.held_out.theirs; }),
                  mean([](const RecordedScore& s) { return s.held_out.ours; }), more,
                  std::sqrt(variance / (kSplits - 1)),
                  mean([](const RecordedScore& s) { return s.cross_us.theirs; }),
                  mean([](const RecordedScore& s) { return s.cross_us.ours; }),
                  mean([](const RecordedScore& s) { return s.duplicates.theirs; }));
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
  if (argc > 3 && std::string(argv[1]) == "demo") {
    print_demo({argv + 2, argv + argc});
    return 0;
  }
  Seeds seeds;
  if (argc > 1) seeds.count = std::atoi(argv[1]);
  if (argc > 2) seeds.first = std::strtoull(argv[2], nullptr, 10);
  if (seeds.count > 0) {
    print_balance(seeds);
    print_links(seeds);
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
