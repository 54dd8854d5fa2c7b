// Runs one block of a kernel: its threads are fibres, taken in a seeded random order, each until it
// waits for others or ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "cuda_runtime.h"

namespace colibri_sim {

// A fault inside a kernel: what cudaErrorLaunchFailure stands for.
class KernelFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct KernelCall {
  std::string name;
  dim3 grid, block;
  size_t shared_bytes = 0;
  std::function<void()> body;
};

// Runs every block of `call`, blocks in an order drawn from `seed` too. Throws KernelFault.
void run_kernel(const KernelCall& call, uint64_t seed);

}  // namespace colibri_sim
