// The tiny model of tests/support on one rank, ready to run steps: V = 10, pages of 64 positions,
// four unless told otherwise.
#pragma once

#include <memory>

#include "coordinator/exchange.h"
#include "coordinator/forward.h"
#include "coordinator/host_path.h"
#include "tests/worker/shard_rig.h"

namespace colibri {

struct ForwardRig {
  explicit ForwardRig(int64_t max_tokens, RouteObserver* observer = nullptr, int32_t num_pages = 4)
      : placement(rig.shape(), 1, {{{0, 1, 2}}, {{0, 1, 2}}}),
        shard(rig.load(placement, 0, 2 * max_tokens)),
        weights(load_coordinator_weights(rig.checkpoint(), WeightFormats{}, rig.backend(),
                                         [](uint64_t) {})),
        cache(kv_layout_of(rig.config().attention, DType::kF32), rig.config().num_layers, num_pages,
              rig.backend()),
        exchange(make_exchange({.local = shard.get(),
                                .device = rig.backend().device,
                                .ops = &rig.ops(),
                                .hidden_size = rig.config().hidden_size,
                                .num_layers = rig.config().num_layers,
                                .max_tokens = max_tokens,
                                .top_k = 2})),
        path(make_host_path({.device = rig.backend().device,
                             .config = &rig.config(),
                             .placement = &placement,
                             .exchange = exchange.get(),
                             .observer = observer})),
        forward({.config = &rig.config(),
                 .weights = &weights,
                 .cache = &cache,
                 .device = rig.backend().device,
                 .ops = &rig.ops(),
                 .stream = &rig.stream(),
                 .max_tokens = max_tokens},
                {.path = path.get()}) {}

  ShardRig rig;
  Placement placement;
  std::unique_ptr<ExpertShard> shard;
  CoordinatorWeights weights;
  KvCache cache;
  std::unique_ptr<ExpertExchange> exchange;
  std::unique_ptr<ExpertPath> path;
  Forward forward;
};

}  // namespace colibri
