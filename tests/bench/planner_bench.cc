// How long a plan takes: 58 layers of 256 experts on 32 ranks of four nodes, Zipf loads, one core.
//   planner_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "topology/cluster_file.h"
#include "topology/planner.h"
#include "topology/rank_map.h"
#include "topology/simulator.h"

int main() {
  using namespace colibri;
  ModelShape shape;
  shape.fingerprint = "made up";
  shape.num_layers = 58;
  shape.hidden_size = 7168;
  shape.expert_width = 2048;
  shape.num_experts = 256;
  shape.top_k = 8;
  shape.expert_bytes = 3 * 7168 * 2048;
  shape.layer_is_moe.assign(58, true);
  const Cluster cluster = find_cluster("4x8xh200-400g");
  const RankMap ranks(cluster, default_rank_parts(cluster, 32, false), {0});
  const LayerTerms terms = layer_terms(shape, ranks, {.size = decode_size(256, 2048)});
  for (const int effort : {0, 100, 400, 1600}) {
    const PlanRequest request{.shape = &shape,
                              .terms = &terms,
                              .shares = zipf_shares(shape, 0.9, 1),
                              .num_replicas = 32,
                              .effort = effort};
    std::vector<double> ms;
    double predicted = 0, gap = 0;
    for (int i = 0; i < 7; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const Plan plan = plan_placement(request);
      const auto took = std::chrono::steady_clock::now() - start;
      ms.push_back(std::chrono::duration<double, std::milli>(took).count());
      predicted = plan.predicted_us;
      gap = plan.gap();
    }
    std::sort(ms.begin(), ms.end());
    std::printf("effort %4d: %.1f ms, predicted %.1f us, gap %.2f %%\n", effort, ms[3], predicted,
                100 * gap);
  }
}
