// Runs one block of a kernel: its threads are fibres, taken in a seeded random order, each until it
// waits for others or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cuda_runtime.h"
#include "simulated_fault.h"

namespace colibri_sim {

struct KernelCall {
  std::string name;
  dim3 grid, block;
  size_t shared_bytes = 0;
  std::function<void()> body;
  int device = 0;
};

// Runs every block of `call`, blocks in an order drawn from `seed` too. Throws KernelFault.
void run_kernel(const KernelCall& call, uint64_t seed);

// "KERNEL block (0, 0, 0) thread (3, 0, 0)" for the thread of a kernel that runs on this host
// thread; false when none does. Allocates nothing.
bool describe_running_thread(char* text, size_t size);

}  // namespace colibri_sim
