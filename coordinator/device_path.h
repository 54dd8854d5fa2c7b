// The path whose plan stays on the device: rows go from memory to memory over a DeviceLink. Steps
// of many tokens send exactly what the plan holds: their counts come to the host, one wait a layer.
// Steps of few tokens, and all of a rank alone, send messages of fixed size, and nobody waits
// before the step's end; a rank that had more results than fit makes the step run again with exact
// counts.
#pragma once

#include <memory>

#include "coordinator/expert_path.h"
#include "coordinator/return_capacity.h"
#include "coordinator/route_observer.h"
#include "coordinator/route_override.h"
#include "kernels/backend.h"
#include "model/config.h"
#include "topology/placement.h"
#include "transport/device_link.h"
#include "transport/transport.h"

namespace colibri {

// All outlive the path.
struct DevicePathParts {
  Backend backend;
  const ModelConfig* config = nullptr;
  const Placement* placement = nullptr;
  DeviceLink* link = nullptr;
  Transport* transport = nullptr;     // for counts
  DeviceExperts* local = nullptr;     // null: this rank holds no expert
  RouteObserver* observer = nullptr;  // may be null
  // Another choice than the router's, made on the host before the step, or null. Logits of the
  // router that are not finite then go unnoticed.
  RouteOverride* routing = nullptr;
  DType row_dtype = DType::kF32;  // of the rows that the experts take
  int64_t max_tokens = 0;         // largest T of a step
  FixedCapacity fixed;            // for steps of few tokens
  // This rank's own rows travel over the link too, from itself to itself (tests).
  bool self_exchange = false;
};

// Takes its message buffers once.
std::unique_ptr<ExpertPath> make_device_path(const DevicePathParts& parts);

}  // namespace colibri
