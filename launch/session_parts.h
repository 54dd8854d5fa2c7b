// The parts of a session, as model_session.cc builds them to serve and session_plan.cc to see what
// they take. Internal to ModelSession.
#pragma once

#include <memory>

#include "coordinator/exchange.h"
#include "coordinator/expert_path.h"
#include "coordinator/kv_cache.h"
#include "launch/model_session.h"

namespace colibri {

struct ModelSession::Coordinator {
  RouteObservers observers;
  std::unique_ptr<RouteOverride> routing;
  CoordinatorWeights weights;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<ExpertExchange> exchange;
  std::unique_ptr<ExpertPath> path;
  std::unique_ptr<Forward> forward;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ExpertRanks> ranks;
};

// Where a rank's parts lie: on its own device, or on one that only counts.
struct ModelSession::Site {
  int rank = 0;
  const Placement* placement = nullptr;
  Backend backend;
  DeviceLink* link = nullptr;  // null: rows travel through host memory
  FixedCapacity fixed = {};
};

}  // namespace colibri
