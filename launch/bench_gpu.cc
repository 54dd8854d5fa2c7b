#include "launch/bench_gpu.h"

#include <string_view>

#include "launch/cuda_backend.h"

namespace colibri {
namespace {

constexpr int kRounds = 5;  // of one probe, timed together

DenseShape product_shape(const GpuProbeSizes& sizes) {
  return {sizes.product_width, sizes.product_width, DType::kBF16, sizes.product_rows};
}

size_t matrix_size(int64_t rows, int64_t cols, size_t each) {
  return static_cast<size_t>(rows * cols) * each;
}

}  // namespace

double GpuProfile::us_per_step() const {
  double us = 0;
  for (const OpTotals& kind : kinds) us += kind.us;
  return num_steps > 0 ? us / static_cast<double>(num_steps) : 0;
}

// 256 MB is past every cache; the filler is as long as it takes to enqueue a call.
GpuProbeSizes gpu_probe_sizes(const CudaBackend& backend) {
  if (std::string_view(backend.kind) == "simulated") {
    return {.copy_bytes = 1 << 16, .filler_bytes = 1 << 12, .product_width = 64, .product_rows = 8};
  }
  return {.copy_bytes = size_t{256} << 20,
          .filler_bytes = size_t{128} << 20,
          .product_width = 8192,
          .product_rows = 4096};
}

GpuProbes::GpuProbes(Device& device, const ChosenDevice& chosen)
    : device_(device),
      sizes_(gpu_probe_sizes(*chosen.backend)),
      stream_(device.make_stream()),
      start_(device.make_timed_event()),
      end_(device.make_timed_event()),
      from_(device, sizes_.copy_bytes),
      to_(device, sizes_.copy_bytes),
      host_(device, sizes_.copy_bytes),
      rows_(device, matrix_size(sizes_.product_rows, sizes_.product_width, 2)),
      weight_(device, matrix_size(sizes_.product_width, sizes_.product_width, 2)),
      product_(device, matrix_size(sizes_.product_rows, sizes_.product_width, sizeof(float))) {
  fill_matrices();
  const DenseShape shape = product_shape(sizes_);
  ops_ = chosen.backend->make_ops(device, {&shape, 1});
  measure();  // clocks and first uses
  measured_ = {};
}

// Numbers of all signs and mantissas: zeros would draw less power, and clocks stay higher.
void GpuProbes::fill_matrices() {
  auto* numbers = host_.as<uint16_t>();
  uint32_t state = 1;
  for (size_t i = 0; i < host_.size_bytes() / sizeof(uint16_t); ++i) {
    state = state * 1664525 + 1013904223;
    numbers[i] = static_cast<uint16_t>(0x3f00 | (state >> 16 & 0x80ff));  // +-[0.5, 2)
  }
  device_.copy(rows_.data(), numbers, rows_.size_bytes(), *stream_);
  device_.copy(weight_.data(), numbers, weight_.size_bytes(), *stream_);
  stream_->synchronize();
}

template <class Work>
double GpuProbes::us_of(const Work& work) {
  device_.record(*start_, *stream_);
  for (int i = 0; i < kRounds; ++i) work();
  device_.record(*end_, *stream_);
  device_.synchronize(*end_);
  return device_.elapsed_us(*start_, *end_) / kRounds;
}

double GpuProbes::gbps(void* to, const void* from, double bytes) {
  return bytes / 1e3 / us_of([&] { device_.copy(to, from, sizes_.copy_bytes, *stream_); });
}

void GpuProbes::measure() {
  const auto bytes = static_cast<double>(sizes_.copy_bytes);
  measured_.copy_gbps.push_back(gbps(to_.data(), from_.data(), 2 * bytes));
  measured_.to_gpu_gbps.push_back(gbps(to_.data(), host_.as<char>(), bytes));
  measured_.from_gpu_gbps.push_back(gbps(host_.as<char>(), from_.data(), bytes));
  const int64_t width = sizes_.product_width;
  const double us = us_of([&] {
    ops_->matmul({.x_bf16 = rows_.as<uint16_t>(),
                  .weight = {weight_.data(), DType::kBF16, width, width},
                  .out = product_.as<float>(),
                  .num_tokens = sizes_.product_rows,
                  .x_stride = width,
                  .out_stride = width},
                 *stream_);
  });
  const double flops = 2.0 * static_cast<double>(width) * static_cast<double>(width) *
                       static_cast<double>(sizes_.product_rows);
  measured_.product_tflops.push_back(flops / 1e6 / us);
}

}  // namespace colibri
