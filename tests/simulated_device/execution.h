// The block that runs now: who its threads are and which of their accesses are in order.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "block_runner.h"

namespace colibri_sim {

inline constexpr int kWarpSize = 32;

// Ticks count the meetings of a launch. What a thread did at tick s is known to another one when
// they have met, at whatever remove, at a later tick.
struct WarpClock {
  uint32_t full_tick = 0;                     // the last meeting of all its lanes
  uint32_t known[kWarpSize][kWarpSize] = {};  // [lane][other]: by meetings of some lanes
};

struct Execution {
  const KernelCall* call = nullptr;  // null: no kernel runs
  pthread_t host_thread{};
  uint64_t launch = 0;  // counts from 1
  uint3 block{};
  int num_threads = 0;
  int thread = -1, warp = 0, lane = 0;  // that runs now; -1: none
  uint32_t tick = 0;
  uint32_t block_tick = 0;    // when the block began
  uint32_t barrier_tick = 0;  // its last __syncthreads, or its beginning
  std::vector<WarpClock> clocks;
  std::vector<std::pair<uint32_t, uint3>> blocks;  // of this launch, by the tick they began at
  unsigned char* shared = nullptr;
  size_t shared_bytes = 0;

  unsigned int lanes_of(int which) const {
    const int count = num_threads - which * kWarpSize;
    return count >= kWarpSize ? 0xFFFFFFFFu : (1u << count) - 1;
  }
  // Whether what `other` did at `then`, in this block, comes before what the running thread does.
  bool is_before(int other, uint32_t then) const {
    if (other == thread || then < barrier_tick) return true;
    if (other / kWarpSize != warp) return false;
    const WarpClock& clock = clocks[static_cast<size_t>(warp)];
    return then < clock.full_tick || then < clock.known[lane][other % kWarpSize];
  }
};
extern Execution running_block;
inline Execution& execution() { return running_block; }

// "KERNEL block (0, 0, 0) thread (3, 0, 0)", for a thread of the running block.
std::string thread_text(int thread);
// "thread (3, 0, 0)".
std::string short_thread_text(int thread);
// Ends the kernel by a fault of the running thread.
[[noreturn]] void fail_thread(const std::string& reason,
                              cudaError_t error = cudaErrorLaunchFailure);

}  // namespace colibri_sim
