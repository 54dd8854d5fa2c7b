#include "tests/gpu/bench_rig.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "base/cuda_check.h"
#include "base/cuda_device.h"
#include "base/quantised.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/lt_library.h"
#include "kernels/cuda/lt_product.h"
#include "kernels/cuda/packing.h"

namespace colibri {
namespace {

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

struct DestroyEvent {
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
};
using TimedEvent = std::unique_ptr<CUevent_st, DestroyEvent>;

TimedEvent make_timed_event() {
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreateWithFlags(&event, 0), "making an event");
  return TimedEvent(event);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

GpuBenchRig::GpuBenchRig(const GpuBenchOptions& options)
    : options_(options),
      device_(make_cuda_device(0)),
      stream_(device_->make_stream()),
      ops_(make_cuda_ops()) {}

double GpuBenchRig::time_us(const std::function<void()>& enqueue) {
  const auto graph = device_->capture(*stream_, enqueue);
  const TimedEvent begin = make_timed_event(), end = make_timed_event();
  graph->enqueue(*stream_);
  graph->enqueue(*stream_);
  std::vector<double> times;
  for (int i = 0; i < options_.repeats; ++i) {
    cuda_check(cudaEventRecord(begin.get(), native(*stream_)), "recording an event");
    graph->enqueue(*stream_);
    cuda_check(cudaEventRecord(end.get(), native(*stream_)), "recording an event");
    stream_->synchronize();
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "reading a time");
    times.push_back(std::max(1e-3, 1e3 * static_cast<double>(ms)));
  }
  return median(times);
}

void* GpuBenchRig::allocate(int64_t bytes) {
  return kept_.emplace_back(*device_, static_cast<size_t>(bytes)).data();
}

void GpuBenchRig::copy_in(void* to, const void* from, size_t bytes) {
  device_->copy(to, from, bytes, *stream_);
  stream_->synchronize();
}

void GpuBenchRig::fill(void* memory, int64_t bytes, const std::vector<unsigned char>& pattern) {
  auto* at = static_cast<unsigned char*>(memory);
  int64_t done = std::min<int64_t>(bytes, static_cast<int64_t>(pattern.size()));
  copy_in(at, pattern.data(), static_cast<size_t>(done));
  while (done < bytes) {
    const int64_t count = std::min(done, bytes - done);
    cuda_check(cudaMemcpyAsync(at + done, at, static_cast<size_t>(count), cudaMemcpyDeviceToDevice,
                               native(*stream_)),
               "a copy");
    done += count;
  }
  stream_->synchronize();
}

void GpuBenchRig::measure_ceilings() {
  ceilings_.copy_bytes_per_us = measure_copy();
  ceilings_.without_cublaslt = cuda::cublaslt_problem();
  if (ceilings_.without_cublaslt.empty()) ceilings_.ops_per_us = measure_product();
  std::printf("device copy: %.1f GB/s read and written\n", ceilings_.copy_bytes_per_us / 1e3);
  if (ceilings_.without_cublaslt.empty()) {
    std::printf("large bf16 product of cuBLASLt: %.1f TFLOP/s\n", ceilings_.ops_per_us / 1e6);
  } else {
    std::printf("no cuBLASLt: %s\n", ceilings_.without_cublaslt.c_str());
  }
}

double GpuBenchRig::measure_copy() {
  const int64_t bytes = options_.is_tiny ? int64_t{1} << 16 : int64_t{1} << 30;
  void *from = allocate(bytes), *to = allocate(bytes);
  const double us = time_us([&] {
    cuda_check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                               native(*stream_)),
               "a copy");
  });
  clear();
  return 2.0 * static_cast<double>(bytes) / us;
}

// The fastest of the heuristic's first few.
double GpuBenchRig::measure_product() {
  const int64_t side = options_.is_tiny ? 64 : 8192;
  const size_t workspace_bytes = size_t{32} << 20;
  const auto handle = cuda::make_lt_handle();
  const cuda::LtProduct product(handle.get(), side, side, side, DType::kBF16);
  cuda::LtArrays arrays;
  const auto pattern = weight_pattern(DType::kBF16, side);
  for (const void** matrix : {&arrays.weight, &arrays.x}) {
    void* memory = allocate(side * side * 2);
    fill(memory, side * side * 2, pattern);
    *matrix = memory;
  }
  arrays.out = static_cast<float*>(allocate(side * side * 4));
  arrays.workspace = allocate(static_cast<int64_t>(workspace_bytes));
  arrays.workspace_bytes = workspace_bytes;
  double best_us = 0;
  for (const auto& algo : product.candidates(workspace_bytes, options_.is_tiny ? 1 : 4)) {
    const double us = time_us(
        [&] { cuda::lt_check(product.enqueue(arrays, algo, native(*stream_)), "a product"); });
    if (best_us == 0 || us < best_us) best_us = us;
  }
  clear();
  const auto n = static_cast<double>(side);
  return best_us == 0 ? 0 : 2 * n * n * n / best_us;
}

std::vector<float> bench_floats(int64_t count) {
  std::mt19937 random(5);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random() % 4096) / 2048.0f - 1.0f;
  return values;
}

std::vector<unsigned char> weight_pattern(DType dtype, int64_t width) {
  const int64_t rows = 4 * kPanelRows;
  const std::vector<float> wide = bench_floats(rows * width);
  if (!is_quantised(dtype)) {
    std::vector<unsigned char> bytes(wide.size() * 2);
    auto* out = reinterpret_cast<uint16_t*>(bytes.data());
    for (size_t i = 0; i < wide.size(); ++i) out[i] = float_to_bf16(wide[i]);
    return bytes;
  }
  std::vector<unsigned char> bytes(static_cast<size_t>(matrix_bytes(dtype, rows, width)));
  quantise_matrix(dtype, wide.data(), rows, width, bytes.data());
  pack_for_cuda(dtype, bytes.data(), rows, width, bytes.data());
  return bytes;
}

std::string rate_and_share(double rate, double ceiling) {
  char text[64];
  if (ceiling > 0) {
    std::snprintf(text, sizeof text, "%.1f | %.0f %%", rate, 100 * rate / ceiling);
  } else {
    std::snprintf(text, sizeof text, "%.1f | -", rate);
  }
  return text;
}

}  // namespace colibri
