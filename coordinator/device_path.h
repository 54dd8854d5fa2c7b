// The path whose plan stays on the device: rows go from memory to memory over a DeviceLink, and
// only their counts come to the host. It waits for the device once a layer.
#pragma once

#include <memory>

#include "coordinator/expert_path.h"
#include "coordinator/route_observer.h"
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
  DType row_dtype = DType::kF32;      // of the rows that the experts take
  int64_t max_tokens = 0;             // largest T of a step
};

// Takes its message buffers once.
std::unique_ptr<ExpertPath> make_device_path(const DevicePathParts& parts);

}  // namespace colibri
