// Copies and fills. Pinned memory is read and written when the copy runs; pageable memory is read
// at the call, and a copy into it is waited for, as CUDA does.
#include <algorithm>
#include <cstring>

#include "counters.h"
#include "device_state.h"
#include "graphs.h"
#include "memory.h"
#include "stream_registry.h"

namespace colibri_sim {
namespace {

enum class Side : unsigned char { kDevice, kPinned, kPageable };

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
  Side to_side = Side::kPageable, from_side = Side::kPageable;
  std::shared_ptr<std::vector<unsigned char>> staged;  // what a pageable source held at the call
};

// Copies that will still read pinned memory: it must not be poisoned under them.
struct PendingRead {
  uintptr_t begin = 0, end = 0;
  std::weak_ptr<bool> alive;
};
std::vector<PendingRead>& pending_reads() {
  static auto* list = new std::vector<PendingRead>;
  return *list;
}

// False when the range begins in an allocation and leaves it, or lies in freed memory.
bool find_side(const void* memory, size_t bytes, Side& side, const char* call_name) {
  const Allocation* one = find_allocation(memory);
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  char text[200];
  if (one != nullptr && begin + bytes <= one->end()) {
    side = one->kind == MemoryKind::kDevice ? Side::kDevice : Side::kPinned;
    return true;
  }
  if (one == nullptr && !describe_address(begin, text, sizeof text)) {
    side = Side::kPageable;
    return true;
  }
  report_fault(std::string(call_name) + " of " + std::to_string(bytes) + " bytes at " +
               address_text(memory));
  return false;
}

bool agrees(cudaMemcpyKind kind, const Copy& copy) {
  const bool to_device = copy.to_side == Side::kDevice,
             from_device = copy.from_side == Side::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

void check_alive(const void* memory, size_t bytes, Side side, const char* what) {
  if (side == Side::kPageable) return;
  const Allocation* one = find_allocation(memory);
  if (one == nullptr || reinterpret_cast<uintptr_t>(memory) + bytes > one->end()) {
    throw KernelFault(std::string(what) + " touches " + address_text(memory),
                      cudaErrorIllegalAddress);
  }
}

void run_copy(const Copy& copy) {
  check_alive(copy.to, copy.bytes, copy.to_side, "a copy");
  check_alive(copy.from, copy.bytes, copy.from_side, "a copy");
  const bool to_host = copy.from_side == Side::kDevice && copy.to_side != Side::kDevice;
  if (to_host) count_copy_to_host(copy.bytes);
  std::memmove(copy.to, copy.staged != nullptr ? copy.staged->data() : copy.from, copy.bytes);
}

// What the destination holds until the copy is done nobody may rely on.
void poison_destination(const Copy& copy) {
  const auto begin = reinterpret_cast<uintptr_t>(copy.to), end = begin + copy.bytes;
  auto& reads = pending_reads();
  std::erase_if(reads, [](const PendingRead& one) { return one.alive.expired(); });
  const bool is_read = std::any_of(reads.begin(), reads.end(), [&](const PendingRead& one) {
    return one.begin < end && begin < one.end;
  });
  if (!is_read) std::memset(copy.to, kPoison, copy.bytes);
}

Task task_of(const Copy& copy) {
  Task task{.name = "copy", .kind = Order::kEnqueueCopy};
  auto alive = std::make_shared<bool>(true);  // as long as the copy is to come
  task.make = [copy, alive] { return work_of([copy, alive] { run_copy(copy); }); };
  if (copy.from_side == Side::kPinned) {
    const auto begin = reinterpret_cast<uintptr_t>(copy.from);
    pending_reads().push_back({begin, begin + copy.bytes, alive});
  }
  if (copy.to_side == Side::kPinned && copy.from_side == Side::kDevice) {
    task.on_enqueue = [copy] { poison_destination(copy); };
  }
  return task;
}

struct Request {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};

// `must_wait`: the call returns when the copy is done. `completion`: where that is.
cudaError_t start_copy(const Request& request, cudaStream_t stream, bool& must_wait,
                       CompletionPtr& completion) {
  Copy copy{.to = request.to, .from = request.from, .bytes = request.bytes, .staged = {}};
  if (request.bytes == 0) return cudaSuccess;
  if (request.to == nullptr || request.from == nullptr) return cudaErrorInvalidValue;
  if (!find_side(request.to, request.bytes, copy.to_side, "a copy to") ||
      !find_side(request.from, request.bytes, copy.from_side, "a copy from")) {
    return cudaErrorInvalidValue;
  }
  if (!agrees(request.kind, copy)) {
    report_fault("a copy whose direction is not that of its memory: to " +
                 address_text(request.to) + ", from " + address_text(request.from));
    return cudaErrorInvalidValue;
  }
  CUstream_st* found = stream_of(stream);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  const bool is_pageable = copy.to_side == Side::kPageable || copy.from_side == Side::kPageable;
  if (found->capture != nullptr && is_pageable) {
    return refuse_in_capture(*found, "a copy of memory that is not pinned");
  }
  if (copy.from_side == Side::kPageable) {
    const auto* source = static_cast<const unsigned char*>(request.from);
    copy.staged = std::make_shared<std::vector<unsigned char>>(source, source + request.bytes);
  }
  must_wait = must_wait || copy.to_side == Side::kPageable;
  return submit(stream, task_of(copy), &completion);
}

cudaError_t copy_and_wait(const Request& request, cudaStream_t stream, bool must_wait,
                          const char* refused_in_capture) {
  CompletionPtr completion;
  int device = 0;
  const cudaError_t error = call([&] {
    if (refused_in_capture != nullptr) {
      const cudaError_t refused = refuse_while_capturing(refused_in_capture);
      if (refused != cudaSuccess) return refused;
    }
    const cudaError_t started = start_copy(request, stream, must_wait, completion);
    if (completion != nullptr) device = completion->stream->device;
    if (started == cudaSuccess && must_wait) log_order(Order::kHostWait, "copy");
    return started;
  });
  return error != cudaSuccess || !must_wait || completion == nullptr ? error
                                                                     : wait_for(completion, device);
}

cudaError_t fill(void* memory, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  Side side = Side::kPageable;
  if (!find_side(memory, bytes, side, "a fill")) return cudaErrorInvalidValue;
  if (side == Side::kPageable) {
    report_fault("a fill of " + address_text(memory));
    return cudaErrorInvalidValue;
  }
  const auto run = [=] {
    check_alive(memory, bytes, side, "a fill");
    std::memset(memory, value, bytes);
  };
  return submit(stream, {.name = "fill",
                         .kind = Order::kEnqueueFill,
                         .make = [run] { return work_of(run); },
                         .on_enqueue = {}});
}

}  // namespace
}  // namespace colibri_sim

using namespace colibri_sim;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_and_wait({to, from, bytes, kind}, stream, false, nullptr);
}
// A copy between device memories does not wait, nor does one from pageable memory, which is read.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  bool must_wait = false;
  {
    Guard guard(big_lock());
    const Allocation *target = find_allocation(to), *source = find_allocation(from);
    must_wait = target == nullptr || target->kind != MemoryKind::kDevice ||
                (source != nullptr && source->kind != MemoryKind::kDevice);
  }
  return copy_and_wait({to, from, bytes, kind}, nullptr, must_wait, "cudaMemcpy");
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return call([&] { return fill(memory, value, bytes, stream); });
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return call([&] {
    const cudaError_t refused = refuse_while_capturing("cudaMemset");
    return refused != cudaSuccess ? refused : fill(memory, value, bytes, nullptr);
  });
}

}  // extern "C"
