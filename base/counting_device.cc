#include "base/counting_device.h"

#include <atomic>
#include <map>
#include <mutex>

#include "base/buffer.h"

namespace colibri {
namespace {

class IdleStream : public Stream {
 public:
  void synchronize() override {}
  void* native_handle() override { return this; }
};

class IdleGraph : public Graph {
 public:
  void enqueue(Stream&) override {}
};

class CountingDevice : public Device {
 public:
  Place place() const override { return Place::kDevice; }
  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    allocated_bytes_ += static_cast<int64_t>(bytes);
    return reinterpret_cast<void*>(kNowhere);
  }
  void release(void* memory, size_t bytes) override {
    if (memory != nullptr) allocated_bytes_ -= static_cast<int64_t>(bytes);
  }
  // Real, for what is built writes into it; large buffers take physical memory only where it does.
  void* allocate_staging(size_t bytes) override {
    if (bytes == 0) return nullptr;
    Buffer memory(bytes);
    void* data = memory.data();
    const std::lock_guard lock(mutex_);
    staging_.emplace(data, std::move(memory));
    staging_bytes_ += static_cast<int64_t>(bytes);
    return data;
  }
  void release_staging(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    staging_.erase(memory);
    staging_bytes_ -= static_cast<int64_t>(bytes);
  }
  int64_t allocated_bytes() const override { return allocated_bytes_; }
  int64_t staging_bytes() const override { return staging_bytes_; }
  void copy(void*, const void*, size_t, Stream&) override {}
  void zero(void*, size_t, Stream&) override {}
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<IdleStream>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<Event>(); }
  void record(Event&, Stream&) override {}
  void wait(Stream&, const Event&) override {}
  bool reached(const Event&) override { return true; }
  void synchronize(const Event&) override {}
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override {
    return std::make_unique<IdleGraph>();
  }

 private:
  static constexpr uintptr_t kNowhere = uintptr_t{1} << 20;  // aligned as device memory is

  std::atomic<int64_t> allocated_bytes_ = 0, staging_bytes_ = 0;
  std::mutex mutex_;
  std::map<void*, Buffer> staging_;
};

}  // namespace

std::unique_ptr<Device> make_counting_device() { return std::make_unique<CountingDevice>(); }

}  // namespace colibri
