// experiments
#include <chrono>
#include <cstdio>

#include "tests/topology/planner_cases.h"

using namespace colibri;

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? std::atoi(argv[1]) : 4096;

  struct Case {
    int experts, gpus, slots;
    int nodes, groups;
  };
  const Case cases[] = {{256, 8, 256, 1, 1}, {256, 8, 264, 1, 1},  {128, 8, 128, 1, 1},
                        {128, 8, 136, 1, 1}, {256, 32, 256, 1, 1}, {256, 32, 288, 1, 1},
                        {256, 32, 288, 4, 8}, {256, 72, 288, 1, 1}, {256, 144, 288, 1, 1}};
  for (const Case& c : cases) {
    for (const double s : {0.3, 0.6, 0.9, 1.2}) {
      double theirs = 0, ours = 0, gap = 0, held_theirs = 0, held_ours = 0, dup = 0, worst = 1;
      double seconds = 0;
      const int seeds = 20;
      for (int seed = 0; seed < seeds; ++seed) {
        const ModelShape shape = plan_shape(c.experts, 1);
        const auto weights = zipf_weights(c.experts, s, static_cast<uint64_t>(seed));
        const auto plan_by = [&](const ExpertLoads& loads) {
          const LayerTerms terms = balance_terms(c.gpus);
          PlanRequest request{shape, terms, &loads};
          request.capacity_slots.assign(static_cast<size_t>(c.gpus), c.slots / c.gpus);
          const auto start = std::chrono::steady_clock::now();
          Plan plan = plan_placement(request);
          seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
          return plan;
        };
        const EplbSizes sizes{c.slots, c.gpus, c.nodes, c.groups};
        const Plan plan = plan_by(exact_loads(shape, weights));
        const auto a = eplb(weights, sizes);
        const auto b = lists_of(plan.placement, 0);
        theirs += balance_of(a, weights);
        ours += balance_of(b, weights);
        worst = std::min(worst, balance_of(b, weights) - balance_of(a, weights));
        gap += plan.gap();
        dup += duplicates_in(a);
        // held out
        const auto train = sampled_layer(weights, 8, tokens, 1000 + static_cast<uint64_t>(seed), false);
        const auto held = sampled_layer(weights, 8, tokens, 2000 + static_cast<uint64_t>(seed), false);
        ExpertLoads w = empty_loads(shape, false);
        w.phases[1][0] = train;
        held_theirs += balance_of(eplb(train.tokens, sizes), held.tokens);
        held_ours += balance_of(lists_of(plan_by(w).placement, 0), held.tokens);
      }
      std::printf("E%d G%d P%d n%d s=%.1f eplb %.4f ours %.4f (worst diff %.4f) gap %.3f%% dup %.2f | held %.4f %.4f %+.5f | %.2f ms\n",
                  c.experts, c.gpus, c.slots, c.nodes, s, theirs / seeds, ours / seeds, worst,
                  gap / seeds * 100, dup / seeds, held_theirs / seeds, held_ours / seeds,
                  (held_ours - held_theirs) / seeds, seconds / seeds / 2 * 1e3);
    }
  }
}
