// Where memory lives and where work runs. The host is one device, a GPU another; kernels/ and
// transport/ see only these two types. CUDA's device comes from libcolibri_cuda.so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

// A point in a stream's work. On the host it is always reached.
class Event {
 public:
  virtual ~Event() = default;
};

// Work recorded once and enqueued again and again, with the same pointers and numbers.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void enqueue(Stream& stream) = 0;
};

// Memory and streams of one device. Thread safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual Place place() const = 0;
  // 64-byte aligned, zero filled. Fails with kEnvironment naming the size when there is none.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) = 0;
  // Host memory that copies to and from this device run at full speed with, while the host goes on.
  // Zero filled, 64-byte aligned.
  virtual void* allocate_staging(size_t bytes) = 0;
  virtual void release_staging(void* memory, size_t bytes) = 0;
  // Staging memory that operations on this device read and write too, at the same address, while
  // the host looks. For words, not for data. Released by release_staging().
  virtual void* allocate_mapped(size_t bytes) { return allocate_staging(bytes); }
  // Bytes that allocate(), and allocate_staging(), handed out and that were not given back. 0 on
  // the host, whose memory does not come from here (base/buffer.h).
  virtual int64_t allocated_bytes() const { return 0; }
  virtual int64_t staging_bytes() const { return 0; }
  // Copies between host and this device in stream order; both ranges stay alive until then.
  virtual void copy(void* to, const void* from, size_t bytes, Stream& stream) = 0;
  virtual void zero(void* memory, size_t bytes, Stream& stream) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;

  virtual std::unique_ptr<Event> make_event() = 0;
  // The event is reached when the work now on `stream` is done.
  virtual void record(Event& event, Stream& stream) = 0;
  // Work enqueued on `stream` from now on starts after the event as last recorded.
  virtual void wait(Stream& stream, const Event& event) = 0;
  virtual bool reached(const Event& event) = 0;
  // Returns once the event as last recorded is reached; at once if it never was.
  virtual void synchronize(const Event& event) = 0;

  // An event that knows when it was reached. Time between two that are, as the device measured it.
  virtual std::unique_ptr<Event> make_timed_event() { return make_event(); }
  virtual double elapsed_us(const Event& /*start*/, const Event& /*end*/) { return 0; }
  // Time that all threads spent inside synchronize() of this device and its streams since it was
  // made; 0 on the host, which never waits.
  virtual double waited_us() const { return 0; }

  // Called by a thread that is not the one that made the device, before it uses it.
  virtual void use_on_this_thread() {}

  // Names what the calling thread does from here to the pop_range() of the same depth, for a
  // profiler. Costs next to nothing while none is attached; nothing on the host.
  virtual void push_range(const char* /*name*/) {}
  virtual void pop_range() {}

  // Runs `enqueue`, whose work on `stream` and on streams that wait for it is recorded instead of
  // done. A device without graphs (the host) gives null and runs nothing.
  virtual std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& enqueue) = 0;
};

// A range as long as this object lives.
class NamedRange {
 public:
  NamedRange(Device& device, const char* name) : device_(device) { device_.push_range(name); }
  ~NamedRange() { device_.pop_range(); }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

 private:
  Device& device_;
};

// The host. `pool` runs the operations of every stream made here and must outlive them.
std::unique_ptr<Device> make_cpu_device(ThreadPool& pool);

// The pool behind a host stream.
ThreadPool& host_pool(Stream& stream);

}  // namespace colibri
