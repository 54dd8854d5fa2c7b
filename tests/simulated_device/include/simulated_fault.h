// A fault of work on the simulated device: what a sticky CUDA error stands for.
#pragma once

#include <stdexcept>

#include "simulated_runtime_types.h"

namespace colibri_sim {

// Thrown by work; the device of its stream keeps `error` from then on, as a GPU does, and the
// message goes to stderr and to faults() (simulated_control.h).
class KernelFault : public std::runtime_error {
 public:
  explicit KernelFault(const std::string& message, cudaError_t error = cudaErrorLaunchFailure)
      : std::runtime_error(message), error_(error) {}
  cudaError_t error() const { return error_; }

 private:
  cudaError_t error_;
};

}  // namespace colibri_sim
