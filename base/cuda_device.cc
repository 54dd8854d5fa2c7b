#include "base/cuda_device.h"

#include <atomic>
#include <chrono>
#include <cstring>

#include "base/cuda_check.h"
#include "base/cuda_ranges.h"

namespace colibri {
namespace {

// Sum of the times that the host spent in waits.
class WaitTimes {
 public:
  template <class Wait>
  void add(const Wait& wait) {
    const auto start = std::chrono::steady_clock::now();
    wait();
    const auto took = std::chrono::steady_clock::now() - start;
    total_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  }
  double us() const { return static_cast<double>(total_ns_.load()) / 1e3; }

 private:
  std::atomic<int64_t> total_ns_ = 0;
};

class CudaStream : public Stream {
 public:
  explicit CudaStream(WaitTimes& waits) : waits_(waits) {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  void synchronize() override {
    waits_.add([&] { cuda_check(cudaStreamSynchronize(stream_), "work on the GPU"); });
  }
  void* native_handle() override { return stream_; }

 private:
  WaitTimes& waits_;
  cudaStream_t stream_ = nullptr;
};

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

class CudaEvent : public Event {
 public:
  explicit CudaEvent(unsigned flags) {
    cuda_check(cudaEventCreateWithFlags(&event, flags), "making an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t event = nullptr;
};

cudaEvent_t native(const Event& event) { return static_cast<const CudaEvent&>(event).event; }

class CudaGraph : public Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(error, "making a graph executable");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(exec_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void enqueue(Stream& stream) override {
    cuda_check(cudaGraphLaunch(exec_, native(stream)), "launching a graph");
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || ordinal < 0 || ordinal >= count) {
      fail(ErrorKind::kEnvironment, "--device cuda:", ordinal, ": this process sees ", count,
           " GPUs", error == cudaSuccess ? "" : ": ",
           error == cudaSuccess ? "" : cudaGetErrorString(error));
    }
    cuda_check(cudaSetDevice(ordinal), "choosing the GPU");
    fill_stream_ = make_stream();
  }
  Place place() const override { return Place::kDevice; }

  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    if (bytes == 0) return nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
      fail(ErrorKind::kEnvironment, "cannot take ", bytes,
           " bytes of GPU memory: ", cudaGetErrorString(error));
    }
    allocated_bytes_ += static_cast<int64_t>(bytes);
    zero(memory, bytes, *fill_stream_);
    fill_stream_->synchronize();
    return memory;
  }
  void release(void* memory, size_t bytes) override {
    cudaFree(memory);
    allocated_bytes_ -= static_cast<int64_t>(bytes);
  }
  void* allocate_staging(size_t bytes) override {
    void* memory = nullptr;
    if (bytes == 0) return nullptr;
    cuda_check(cudaMallocHost(&memory, bytes), "taking pinned memory");
    staging_bytes_ += static_cast<int64_t>(bytes);
    std::memset(memory, 0, bytes);
    return memory;
  }
  void* allocate_mapped(size_t bytes) override {
    void *memory = nullptr, *seen_by_device = nullptr;
    if (bytes == 0) return nullptr;
    cuda_check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), "taking mapped memory");
    cuda_check(cudaHostGetDevicePointer(&seen_by_device, memory, 0), "mapping memory");
    check(seen_by_device == memory, "mapped memory has another address on the GPU");
    staging_bytes_ += static_cast<int64_t>(bytes);
    std::memset(memory, 0, bytes);
    return memory;
  }
  void release_staging(void* memory, size_t bytes) override {
    cudaFreeHost(memory);
    staging_bytes_ -= static_cast<int64_t>(bytes);
  }
  int64_t allocated_bytes() const override { return allocated_bytes_; }
  int64_t staging_bytes() const override { return staging_bytes_; }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "a copy");
  }
  void zero(void* memory, size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    cuda_check(cudaMemsetAsync(memory, 0, bytes, native(stream)), "filling with zeros");
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(waits_); }

  std::unique_ptr<Event> make_event() override {
    return std::make_unique<CudaEvent>(cudaEventDisableTiming);
  }
  std::unique_ptr<Event> make_timed_event() override {
    return std::make_unique<CudaEvent>(cudaEventDefault);
  }
  double elapsed_us(const Event& start, const Event& end) override {
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, native(start), native(end)), "reading events' times");
    return double{ms} * 1e3;
  }
  double waited_us() const override { return waits_.us(); }
  void push_range(const char* name) override { push_cuda_range(name); }
  void pop_range() override { pop_cuda_range(); }
  void record(Event& event, Stream& stream) override {
    cuda_check(cudaEventRecord(native(event), native(stream)), "recording an event");
  }
  void wait(Stream& stream, const Event& event) override {
    cuda_check(cudaStreamWaitEvent(native(stream), native(event), 0), "waiting for an event");
  }
  bool reached(const Event& event) override {
    const cudaError_t error = cudaEventQuery(native(event));
    if (error == cudaErrorNotReady) return false;
    cuda_check(error, "work on the GPU");
    return true;
  }
  void synchronize(const Event& event) override {
    waits_.add([&] { cuda_check(cudaEventSynchronize(native(event)), "work on the GPU"); });
  }
  void use_on_this_thread() override {
    cuda_check(cudaSetDevice(ordinal_), "choosing the GPU on another thread");
  }
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& enqueue) override {
    cuda_check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal),
               "beginning a capture");
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(native(stream), &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    cuda_check(cudaStreamEndCapture(native(stream), &graph), "ending a capture");
    return std::make_unique<CudaGraph>(graph);
  }

 private:
  int ordinal_;
  WaitTimes waits_;
  std::atomic<int64_t> allocated_bytes_ = 0, staging_bytes_ = 0;
  std::unique_ptr<Stream> fill_stream_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(int ordinal) {
  return std::make_unique<CudaDevice>(ordinal);
}

}  // namespace colibri
