#include <chrono>
#include <cstring>

#include "base/device.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace colibri {
namespace {

class CpuStream : public Stream {
 public:
  explicit CpuStream(ThreadPool& pool) : pool_(pool) {}
  void synchronize() override {}
  void* native_handle() override { return &pool_; }

 private:
  ThreadPool& pool_;
};

// Work on the host is done when its call returns, so the clock at record() is the event's.
struct TimedEvent : Event {
  std::chrono::steady_clock::time_point at;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(ThreadPool& pool) : pool_(pool) {}
  Place place() const override { return Place::kHost; }
  void* allocate(size_t bytes) override {
    const size_t rounded = (bytes + 63) / 64 * 64;
    void* memory = std::aligned_alloc(64, rounded);
    if (memory == nullptr && rounded > 0) {
      fail(ErrorKind::kEnvironment, "cannot take ", bytes, " bytes of host memory");
    }
    std::memset(memory, 0, rounded);
    return memory;
  }
  void release(void* memory, size_t) override { std::free(memory); }
  void* allocate_staging(size_t bytes) override { return allocate(bytes); }
  void release_staging(void* memory, size_t bytes) override { release(memory, bytes); }
  void copy(void* to, const void* from, size_t bytes, Stream&) override {
    std::memcpy(to, from, bytes);
  }
  void zero(void* memory, size_t bytes, Stream&) override { std::memset(memory, 0, bytes); }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(pool_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<Event>(); }
  std::unique_ptr<Event> make_timed_event() override { return std::make_unique<TimedEvent>(); }
  double elapsed_us(const Event& start, const Event& end) override {
    const auto took =
        dynamic_cast<const TimedEvent&>(end).at - dynamic_cast<const TimedEvent&>(start).at;
    return std::chrono::duration<double, std::micro>(took).count();
  }
  void record(Event& event, Stream&) override {
    auto* timed = dynamic_cast<TimedEvent*>(&event);
    if (timed != nullptr) timed->at = std::chrono::steady_clock::now();
  }
  void wait(Stream&, const Event&) override {}
  bool reached(const Event&) override { return true; }
  void synchronize(const Event&) override {}
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override { return nullptr; }

 private:
  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(ThreadPool& pool) {
  return std::make_unique<CpuDevice>(pool);
}

ThreadPool& host_pool(Stream& stream) { return *static_cast<ThreadPool*>(stream.native_handle()); }

}  // namespace colibri
