// The path with its plan on the host: choices are copied there, counted into a plan, and rows go
// through an ExpertExchange. With a GPU it costs a wait in every layer; it is what the others are
// held against.
#pragma once

#include <memory>

#include "base/device.h"
#include "coordinator/expert_path.h"
#include "coordinator/route_observer.h"
#include "coordinator/route_override.h"
#include "model/config.h"
#include "topology/placement.h"

namespace colibri {

// All outlive the path.
struct HostPathParts {
  Device* device = nullptr;
  const ModelConfig* config = nullptr;
  const Placement* placement = nullptr;
  int64_t max_tokens = 0;  // largest T of a step
  ExpertExchange* exchange = nullptr;
  RouteOverride* routing = nullptr;   // may be null: the model's own choice
  RouteObserver* observer = nullptr;  // may be null
};

std::unique_ptr<ExpertPath> make_host_path(const HostPathParts& parts);

}  // namespace colibri
