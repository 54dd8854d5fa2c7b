// How the stand-ins of NCCL and cuBLASLt put work on a stream of the simulated device.
#pragma once

#include <functional>
#include <memory>

#include "cuda_runtime.h"
#include "simulated_fault.h"

namespace colibri_sim {

// One piece of work in flight. step() does what can be done now and tells whether the work is done;
// it is called again until then, and never before all earlier work of the stream is done.
class StreamWork {
 public:
  virtual ~StreamWork() = default;
  virtual bool step() = 0;
};

// Makes the work anew each time it is to run: once, or once for each replay of a captured graph.
// Called when all earlier work of the stream is done, not at enqueue().
using MakeStreamWork = std::function<std::unique_ptr<StreamWork>()>;

// Puts work at the end of `stream`. A KernelFault (simulated_fault.h) that `make` or step() throws
// becomes the error of the stream's device, as with CUDA every later call returns it. `what` names
// the work in order_log() (simulated_control.h).
cudaError_t enqueue(cudaStream_t stream, MakeStreamWork make, const char* what = "work");

// Lets every stream of the process go on as far as it can. Every query and every wait calls it.
void advance_all_streams();

// While work runs on the device its memory is open to the host; outside it is not. A stand-in that
// touches device memory from step() is inside; one that does so elsewhere opens it by this.
class OpenDeviceMemory {
 public:
  OpenDeviceMemory();
  ~OpenDeviceMemory();
  OpenDeviceMemory(const OpenDeviceMemory&) = delete;
  OpenDeviceMemory& operator=(const OpenDeviceMemory&) = delete;
};

// Whether [address, address + bytes) lies in one allocation of device memory of `device`.
bool is_device_memory(const void* address, size_t bytes, int device);

}  // namespace colibri_sim
