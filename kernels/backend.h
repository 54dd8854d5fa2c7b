// What a rank computes with.
#pragma once

#include "base/device.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"

namespace colibri {

// All outlive whoever is given it. `pool` is the host's threads: loading, and the CPU's operations.
struct Backend {
  Device* device = nullptr;
  Stream* stream = nullptr;
  Ops* ops = nullptr;
  ThreadPool* pool = nullptr;
};

}  // namespace colibri
