// CUDA's calls about streams and events.
#include <algorithm>

#include "device_state.h"
#include "graphs.h"
#include "memory.h"
#include "settings.h"
#include "stream_registry.h"

namespace colibri_sim {
namespace {

bool lives(cudaEvent_t event) { return registry().events.contains(event); }

// A real device may always answer "not yet": some queries let nothing go on.
void advance_for_query() {
  if (settings().order != StreamOrder::kAtOnce && registry().random.below(4) == 0) return;
  advance_all();
}

cudaError_t check_priority(int priority) {
  return priority >= -5 && priority <= 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t make_stream(cudaStream_t* out, unsigned int flags, int priority) {
  return call([&] {
    if (out == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *out = add_stream(current_device(), flags, std::clamp(priority, -5, 0));
    return cudaSuccess;
  });
}

cudaError_t record(cudaEvent_t event, cudaStream_t handle) {
  CUstream_st* stream = stream_of(handle);
  if (!lives(event) || stream == nullptr || stream->device != event->device) {
    return cudaErrorInvalidResourceHandle;
  }
  log_order(Order::kRecordEvent, "", stream->number);
  if (stream->capture != nullptr) return record_in_capture(*event, *stream);
  event->capture = nullptr;
  return submit(handle, {.name = "event", .kind = Order::kRecordEvent}, &event->reached);
}

cudaError_t stream_waits(cudaStream_t handle, cudaEvent_t event) {
  CUstream_st* stream = stream_of(handle);
  if (!lives(event) || stream == nullptr) return cudaErrorInvalidResourceHandle;
  log_order(Order::kWaitEvent, "", stream->number);
  if (stream->capture != nullptr || event->capture != nullptr) {
    return wait_in_capture(*stream, *event);
  }
  if (event->reached == nullptr || event->reached->is_done) return cudaSuccess;
  push(*stream, {.name = "wait", .kind = Order::kWaitEvent}, nullptr);
  stream->queue.back().after.push_back(event->reached);
  if (settings().order == StreamOrder::kAtOnce) advance_all();
  return cudaSuccess;
}

// What both querying and waiting refuse.
cudaError_t check_host_wait(cudaEvent_t event, const char* name) {
  if (!lives(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture != nullptr) {
    event->capture->is_valid = false;
    return cudaErrorCapturedEvent;
  }
  log_order(Order::kHostWait, name);
  return refuse_while_capturing(name);
}
cudaError_t check_host_wait(cudaStream_t handle, const char* name) {
  CUstream_st* stream = stream_of(handle);
  if (stream == nullptr || stream->is_destroyed) return cudaErrorInvalidResourceHandle;
  log_order(Order::kHostWait, name, stream->number);
  if (stream->capture != nullptr) return refuse_in_capture(*stream, name);
  return refuse_while_capturing(name);
}

}  // namespace
}  // namespace colibri_sim

using namespace colibri_sim;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_stream(stream, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return make_stream(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return make_stream(stream, flags, priority);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return call([&] {
    const CUstream_st* stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *priority = stream->priority;
    return check_priority(*priority);
  });
}
cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  return call([&] {
    const CUstream_st* stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *flags = stream->flags;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call([&] {
    const CUstream_st* stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *device = stream->device;
    return cudaSuccess;
  });
}
// Returns at once; what is queued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Guard guard(big_lock());
  CUstream_st* stream = handle == nullptr ? nullptr : stream_of(handle);
  if (stream == nullptr || stream->is_default || stream->is_destroyed) {
    return remember(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture != nullptr) return remember(refuse_in_capture(*stream, "cudaStreamDestroy"));
  stream->is_destroyed = true;
  sweep_streams();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CompletionPtr tail;
  int device = 0;
  const cudaError_t error = call([&] {
    const cudaError_t refused = check_host_wait(handle, "cudaStreamSynchronize");
    if (refused != cudaSuccess) return refused;
    tail = tail_of(*stream_of(handle));
    device = stream_of(handle)->device;
    return device_state(device).sticky;
  });
  return error != cudaSuccess || tail == nullptr ? error : wait_for(tail, device);
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&] {
    const cudaError_t refused = check_host_wait(handle, "cudaStreamQuery");
    if (refused != cudaSuccess) return refused;
    CUstream_st& stream = *stream_of(handle);
    if (!stream.queue.empty()) advance_for_query();
    if (const cudaError_t error = device_state(stream.device).sticky; error != cudaSuccess) {
      return error;
    }
    return stream.queue.empty() ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return call([&] { return stream_waits(stream, event); });
}
cudaError_t cudaDeviceSynchronize() {
  const cudaError_t error = call([] {
    log_order(Order::kHostWait, "cudaDeviceSynchronize");
    return refuse_while_capturing("cudaDeviceSynchronize");
  });
  return error != cudaSuccess ? error : wait_for_device(current_device());
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return call([&] {
    *event = new CUevent_st;
    (*event)->device = current_device();
    (*event)->flags = flags;
    registry().events.insert(*event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Guard guard(big_lock());
  if (!lives(event)) return remember(cudaErrorInvalidResourceHandle);
  registry().events.erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&] { return record(event, stream); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] {
    const cudaError_t refused = check_host_wait(event, "cudaEventQuery");
    if (refused != cudaSuccess || event->reached == nullptr) return refused;
    if (!event->reached->is_done) advance_for_query();
    if (const cudaError_t error = device_state(event->device).sticky; error != cudaSuccess) {
      return error;
    }
    return event->reached->is_done ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CompletionPtr reached;
  int device = 0;
  const cudaError_t error = call([&] {
    const cudaError_t refused = check_host_wait(event, "cudaEventSynchronize");
    if (refused != cudaSuccess) return refused;
    reached = event->reached;
    device = event->device;
    return cudaSuccess;
  });
  return error != cudaSuccess || reached == nullptr ? error : wait_for(reached, device);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    for (const cudaEvent_t one : {start, end}) {
      if (!lives(one) || one->reached == nullptr || (one->flags & cudaEventDisableTiming) != 0) {
        return cudaErrorInvalidResourceHandle;
      }
    }
    if (!start->reached->is_done || !end->reached->is_done) return cudaErrorNotReady;
    const auto passed = end->reached->time - start->reached->time;
    *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
    return cudaSuccess;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  const auto run = [function, user_data] {
    CloseDeviceMemory closed;
    in_host_function() = true;
    function(user_data);
    in_host_function() = false;
  };
  return call([&] {
    return submit(stream, {.name = "host function", .kind = Order::kEnqueueWork, .make = [run] {
                             return work_of(run);
                           }});
  });
}

}  // extern "C"
