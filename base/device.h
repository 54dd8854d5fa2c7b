// Where memory lives and where work runs. The host is one device, a GPU another; kernels/ and
// transport/ see only these two types. CUDA's device comes from libcolibri_cuda.so.
#pragma once

#include <cstddef>
#include <memory>

namespace colibri {

class ThreadPool;

enum class Place : unsigned char { kHost, kDevice };

// An ordered queue of work on one device. On the host work is done when the call returns, so
// synchronize() does nothing; on a GPU calls only enqueue.
class Stream {
 public:
  virtual ~Stream() = default;
  // Returns after everything enqueued so far is done. Errors of that work are thrown here.
  virtual void synchronize() = 0;
  // Host: the ThreadPool that operations use. CUDA: the cudaStream_t. Never null.
  virtual void* native_handle() = 0;
};

// Memory and streams of one device. Thread safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual Place place() const = 0;
  // 64-byte aligned, zero filled. Fails with kEnvironment naming the size when there is none.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) = 0;
  // Copies between host and this device in stream order; both ranges stay alive until then.
  virtual void copy(void* to, const void* from, size_t bytes, Stream& stream) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
};

// The host. `pool` runs the operations of every stream made here and must outlive them.
std::unique_ptr<Device> make_cpu_device(ThreadPool& pool);

// The pool behind a host stream.
ThreadPool& host_pool(Stream& stream);

}  // namespace colibri
