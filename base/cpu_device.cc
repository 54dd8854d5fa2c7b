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
  void copy(void* to, const void* from, size_t bytes, Stream&) override {
    std::memcpy(to, from, bytes);
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(pool_); }

 private:
  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(ThreadPool& pool) {
  return std::make_unique<CpuDevice>(pool);
}

ThreadPool& host_pool(Stream& stream) { return *static_cast<ThreadPool*>(stream.native_handle()); }

}  // namespace colibri
