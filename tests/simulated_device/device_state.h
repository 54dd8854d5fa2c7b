// What all parts of the simulated runtime share: one lock, the devices with their errors, and the
// frame of a CUDA call.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace colibri_sim {

// Held by every call, and while work runs; waits let it go between two looks.
std::recursive_mutex& big_lock();
using Guard = std::lock_guard<std::recursive_mutex>;

struct DeviceState {
  cudaError_t sticky = cudaSuccess;
  size_t bytes_in_use = 0;
  std::vector<bool> peers;  // whose memory its kernels may touch
};

// By ordinal. Call with the lock held.
DeviceState& device_state(int device);
int current_device();
bool is_device(int device);

// Sets the thread's last error and returns it.
cudaError_t remember(cudaError_t error);
// A message for people: stderr and faults().
void report_fault(const std::string& message);
// From now on every call on the device returns `error`; its queued work is dropped.
void fail_device(int device, cudaError_t error, const std::string& message);
// The error that every call on the current device returns.
cudaError_t sticky_error();

// Set while a function given to cudaLaunchHostFunc runs: CUDA refuses every call from there.
bool& in_host_function();

// The frame of a call: lock, sticky error, last error.
template <class F>
cudaError_t call(F&& body) {
  Guard guard(big_lock());
  if (in_host_function()) return remember(cudaErrorNotPermitted);
  if (!is_device(current_device())) return remember(cudaErrorNoDevice);
  if (const cudaError_t sticky = sticky_error(); sticky != cudaSuccess) return remember(sticky);
  return remember(body());
}

}  // namespace colibri_sim
