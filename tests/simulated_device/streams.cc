#include "streams.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "device_state.h"
#include "graphs.h"
#include "random.h"
#include "settings.h"
#include "stream_registry.h"

namespace colibri_sim {
namespace {

class FunctionWork : public StreamWork {
 public:
  explicit FunctionWork(std::function<void()> body) : body_(std::move(body)) {}
  bool step() override {
    body_();
    return true;
  }

 private:
  std::function<void()> body_;
};

void finish_front(CUstream_st& stream) {
  Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  item.completion->is_done = true;
  item.completion->time = std::chrono::steady_clock::now();
  log_order(Order::kDone, item.task.name, stream.number);
}

bool is_ready(const Item& item) {
  return std::all_of(item.after.begin(), item.after.end(),
                     [](const CompletionPtr& one) { return one->is_done; });
}

// Runs what stands at the front as far as it goes; tells whether it got done.
bool step_front(CUstream_st& stream) {
  if (stream.queue.empty() || stream.is_busy || !is_ready(stream.queue.front())) return false;
  Item& item = stream.queue.front();
  stream.is_busy = true;
  bool is_done = true;
  try {
    if (!item.is_started) {
      item.is_started = true;
      if (item.task.make) {
        log_order(Order::kStart, item.task.name, stream.number);
        item.work = item.task.make();
      }
    }
    if (item.work != nullptr) is_done = item.work->step();
  } catch (const KernelFault& fault) {
    stream.is_busy = false;
    fail_device(stream.device, fault.error(), fault.what());
    return true;
  } catch (const std::exception& error) {
    stream.is_busy = false;
    fail_device(stream.device, cudaErrorUnknown, item.task.name + ": " + error.what());
    return true;
  }
  stream.is_busy = false;
  if (is_done && !stream.queue.empty()) finish_front(stream);
  return is_done;
}

// Goes only as far as `completion` asks for.
bool advance_for(const Completion& completion) {
  bool any = false;
  while (!completion.is_done) {
    CUstream_st& stream = *completion.stream;
    if (stream.queue.empty()) break;
    bool moved = step_front(stream);
    if (!moved && !stream.is_busy && !stream.queue.empty()) {
      const std::vector<CompletionPtr> after = stream.queue.front().after;
      for (const CompletionPtr& one : after) moved = (!one->is_done && advance_for(*one)) || moved;
    }
    if (!moved) break;
    any = true;
  }
  return any;
}

void advance_some() {
  OpenDeviceMemory open;
  auto& streams = registry().streams;
  for (uint32_t left = registry().random.below(4); left > 0 && !streams.empty(); --left) {
    step_front(*streams[registry().random.below(static_cast<uint32_t>(streams.size()))]);
  }
}

void after_submit() {
  if (settings().order == StreamOrder::kAtOnce) advance_all();
  if (settings().order == StreamOrder::kMixed) advance_some();
}

// Stalled: the other side of an exchange, in another process perhaps, has to do something.
void pause(int num_idle) {
  if (num_idle < 64) {
    sched_yield();
    return;
  }
  const timespec moment = {0, num_idle < 256 ? 20'000 : 200'000};
  nanosleep(&moment, nullptr);
}

bool advance_towards(const Completion& completion) {
  const bool narrow = settings().order == StreamOrder::kLate ||
                      (settings().order == StreamOrder::kMixed && registry().random.below(2) == 0);
  if (narrow) {
    OpenDeviceMemory open;
    if (advance_for(completion)) return true;
  }
  return advance_all();
}

}  // namespace

std::unique_ptr<StreamWork> work_of(std::function<void()> body) {
  return std::make_unique<FunctionWork>(std::move(body));
}

bool advance_all() {
  Guard guard(big_lock());
  auto& streams = registry().streams;
  const auto has_work = [](const auto& one) { return !one->queue.empty(); };
  if (std::none_of(streams.begin(), streams.end(), has_work)) return false;
  OpenDeviceMemory open;
  bool any = false;
  for (bool moved = true; moved;) {
    moved = false;
    const auto count = static_cast<uint32_t>(streams.size());
    const uint32_t first = registry().random.below(count);
    for (uint32_t i = 0; i < count; ++i) {
      while (step_front(*streams[(first + i) % count])) moved = true;
    }
    any = any || moved;
  }
  sweep_streams();
  return any;
}

void advance_all_streams() { advance_all(); }

cudaError_t submit(cudaStream_t handle, Task task, CompletionPtr* completion) {
  CUstream_st* stream = stream_of(handle);
  if (stream == nullptr || stream->is_destroyed) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = device_state(stream->device).sticky; error != cudaSuccess) {
    return error;
  }
  if (stream->is_default) {
    const cudaError_t error = refuse_default_stream(task.name.c_str());
    if (error != cudaSuccess) return error;
  }
  if (task.kind != Order::kRecordEvent) log_order(task.kind, task.name, stream->number);
  if (stream->capture != nullptr) return add_to_capture(*stream, std::move(task));
  push(*stream, std::move(task), completion);
  after_submit();
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, MakeStreamWork make, const char* what) {
  return call([&] {
    return submit(stream, {.name = what, .kind = Order::kEnqueueWork, .make = std::move(make)});
  });
}

cudaError_t wait_for(CompletionPtr completion, int device) {
  for (int num_idle = 0;; ++num_idle) {
    {
      Guard guard(big_lock());
      if (!completion->is_done && advance_towards(*completion)) num_idle = 0;
      if (const cudaError_t error = device_state(device).sticky; error != cudaSuccess) {
        return remember(error);
      }
      if (completion->is_done) return cudaSuccess;
    }
    pause(num_idle);
  }
}

cudaError_t wait_for_device(int device) {
  std::vector<CompletionPtr> tails;
  {
    Guard guard(big_lock());
    tails = tails_of(device);
    if (const cudaError_t error = device_state(device).sticky; error != cudaSuccess) {
      return remember(error);
    }
  }
  for (const CompletionPtr& tail : tails) {
    const cudaError_t error = wait_for(tail, device);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

void drop_work(int device) {
  for (const auto& stream : registry().streams) {
    if (stream->device != device) continue;
    for (Item& item : stream->queue) item.completion->is_done = true;
    stream->queue.clear();
  }
}

}  // namespace colibri_sim
