#include "stream_registry.h"

#include <algorithm>
#include <sstream>

#include "device_state.h"
#include "graphs.h"
#include "memory.h"
#include "settings.h"

namespace colibri_sim {

Registry& registry() {
  static auto* one = [] {
    auto* made = new Registry;
    made->random = Random(settings().seed);
    made->defaults.resize(static_cast<size_t>(settings().num_devices));
    return made;
  }();
  return *one;
}

CUstream_st* add_stream(int device, unsigned int flags, int priority) {
  auto stream = std::make_unique<CUstream_st>();
  stream->device = device;
  stream->number = ++registry().num_streams;
  stream->flags = flags;
  stream->priority = priority;
  registry().streams.push_back(std::move(stream));
  return registry().streams.back().get();
}

CUstream_st* stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    CUstream_st*& stream = registry().defaults[static_cast<size_t>(current_device())];
    if (stream == nullptr) {
      stream = add_stream(current_device(), 0, 0);
      stream->is_default = true;
    }
    return stream;
  }
  for (const auto& stream : registry().streams) {
    if (stream.get() == handle) return stream.get();
  }
  return nullptr;
}

void sweep_streams() {
  std::erase_if(registry().streams, [](const auto& one) {
    return one->is_destroyed && one->queue.empty() && !one->is_busy;
  });
}

CompletionPtr tail_of(const CUstream_st& stream) {
  return stream.queue.empty() ? nullptr : stream.queue.back().completion;
}

std::vector<CompletionPtr> tails_of(int device) {
  std::vector<CompletionPtr> tails;
  for (const auto& stream : registry().streams) {
    if (stream->device != device) continue;
    if (CompletionPtr tail = tail_of(*stream)) tails.push_back(std::move(tail));
  }
  return tails;
}

void push(CUstream_st& stream, Task task, CompletionPtr* completion) {
  Item item;
  if (task.on_enqueue) task.on_enqueue();
  item.task = std::move(task);
  item.completion = std::make_shared<Completion>();
  item.completion->stream = &stream;
  if (completion != nullptr) *completion = item.completion;
  // The null stream and the blocking streams of its device wait for each other.
  for (const auto& other : registry().streams) {
    if (other.get() == &stream || other->device != stream.device) continue;
    const CUstream_st& blocking = stream.is_default ? *other : stream;
    if ((other->is_default || stream.is_default) && (blocking.flags & cudaStreamNonBlocking) == 0) {
      if (CompletionPtr tail = tail_of(*other)) item.after.push_back(std::move(tail));
    }
  }
  stream.queue.push_back(std::move(item));
}

void set_stream_order(StreamOrder order) {
  Guard guard(big_lock());
  settings().order = order;
}

void set_seed(uint64_t seed) {
  Guard guard(big_lock());
  settings().seed = seed;
  registry().random = Random(seed);
}

std::string leak_report() {
  Guard guard(big_lock());
  std::ostringstream text;
  for (const Allocation* one : all_allocations()) {
    text << address_text(reinterpret_cast<const void*>(one->begin)) << " of device " << one->device
         << " was not freed\n";
  }
  for (const auto& stream : registry().streams) {
    if (stream->is_default || stream->is_destroyed) continue;
    text << "stream " << stream->number << " was not destroyed\n";
  }
  if (!registry().events.empty()) text << registry().events.size() << " events live\n";
  if (num_live_graphs() > 0) text << num_live_graphs() << " graphs live\n";
  return text.str();
}

}  // namespace colibri_sim
