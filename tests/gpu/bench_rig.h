// What the GPU's benchmark measures with: memory, graphs of repeated work and times by events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/device.h"
#include "base/dtype.h"
#include "kernels/ops.h"

namespace colibri {

struct GpuBenchOptions {
  bool is_tiny =
      false;         // shapes that the simulated device works out in seconds; times mean nothing
  int repeats = 15;  // of which the median is taken
  std::string only;  // experts, products or attention; empty: all
};

// Ceilings of this GPU, measured in this process.
struct GpuCeilings {
  double copy_bytes_per_us = 0;  // read and written, of a large copy inside the GPU's memory
  double ops_per_us = 0;         // of a large bf16 product by cuBLASLt; 0 without it
  std::string without_cublaslt;  // why
};

class GpuBenchRig {
 public:
  explicit GpuBenchRig(const GpuBenchOptions& options);

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Ops& ops() { return *ops_; }
  const GpuBenchOptions& options() const { return options_; }
  const GpuCeilings& ceilings() const { return ceilings_; }
  void measure_ceilings();

  // Median microseconds of what `enqueue` puts on the stream, replayed as a graph.
  double time_us(const std::function<void()>& enqueue);

  // Memory of the GPU that the caller need not name again; freed with clear().
  void* allocate(int64_t bytes);
  template <class T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = values.size() * sizeof(T);
    void* memory = allocate(static_cast<int64_t>(bytes));
    copy_in(memory, values.data(), bytes);
    return static_cast<T*>(memory);
  }
  // `bytes` filled with copies of `pattern`, the last one cut.
  void fill(void* memory, int64_t bytes, const std::vector<unsigned char>& pattern);
  void clear() { kept_.clear(); }

 private:
  void copy_in(void* to, const void* from, size_t bytes);
  double measure_copy();
  double measure_product();

  GpuBenchOptions options_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  GpuCeilings ceilings_;
  std::vector<Buffer> kept_;
};

// Some rows of a weight matrix of this width, as the GPU reads them: whole panels for q8 and q4.
std::vector<unsigned char> weight_pattern(DType dtype, int64_t width);
std::vector<float> bench_floats(int64_t count);

// Tables on stdout. Each expects measured ceilings.
void bench_experts(GpuBenchRig& rig);
void bench_products(GpuBenchRig& rig);
void bench_attention(GpuBenchRig& rig);

// What the simulated device counted; nothing on a GPU.
void print_counts();

// "1234.5 | 81 %": a rate and its share of a ceiling, "-" without one.
std::string rate_and_share(double rate, double ceiling);

}  // namespace colibri
