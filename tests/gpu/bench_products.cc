// Dense products: own kernels, and cuBLASLt's pinned algorithms where it is there.
#include <algorithm>
#include <cstdio>

#include "base/quantised.h"
#include "kernels/cuda/dense.h"
#include "tests/gpu/bench_rig.h"

namespace colibri {
namespace {

struct ProductShape {
  const char* name;
  int64_t n, k;
};

class ProductTable {
 public:
  ProductTable(GpuBenchRig& rig, const ProductShape& shape, int64_t max_tokens)
      : rig_(rig), shape_(shape) {
    const auto wide = bench_floats(std::min<int64_t>(max_tokens, 64) * shape.k);
    const auto* bytes = reinterpret_cast<const unsigned char*>(wide.data());
    auto* x = static_cast<float*>(rig.allocate(max_tokens * shape.k * 4));
    rig.fill(x, max_tokens * shape.k * 4, {bytes, bytes + wide.size() * 4});
    auto* bf16 = static_cast<uint16_t*>(rig.allocate(max_tokens * shape.k * 2));
    void* quantised = rig.allocate(max_tokens * activation_row_bytes(shape.k));
    const int64_t rows = max_tokens, width = shape.k;
    rig.ops().round_rows({.x = x, .out = bf16, .num_rows = rows, .width = width, .x_stride = width},
                         rig.stream());
    rig.ops().quantise_rows(
        {.x = x, .out = quantised, .num_rows = rows, .width = width, .x_stride = width},
        rig.stream());
    bf16_ = bf16;
    quantised_ = quantised;
    out_ = static_cast<float*>(rig.allocate(max_tokens * shape.n * 4));
  }

  void lines(DType dtype, const std::vector<int64_t>& tokens, DenseProducts* dense) {
    const int64_t bytes = matrix_bytes(dtype, shape_.n, shape_.k);
    const int64_t enough = rig_.options().is_tiny ? 1 : int64_t{1} << 29;
    const int64_t copies = std::max<int64_t>(1, enough / bytes);
    auto* weights = static_cast<unsigned char*>(rig_.allocate(copies * bytes));
    rig_.fill(weights, copies * bytes, weight_pattern(dtype, shape_.k));
    for (const int64_t count : tokens) {
      MatMul op;
      op.out = out_;
      op.num_tokens = count;
      op.x_stride = shape_.k;
      op.out_stride = shape_.n;
      if (is_quantised(dtype)) {
        op.x_quantised = quantised_;
      } else {
        op.x_bf16 = bf16_;
      }
      const double us = rig_.time_us([&] {
        for (int64_t c = 0; c < copies; ++c) {
          op.weight = {weights + c * bytes, dtype, shape_.n, shape_.k};
          if (dense != nullptr) {
            dense->run(op, rig_.stream());
          } else {
            rig_.ops().matmul(op, rig_.stream());
          }
        }
      });
      print(dtype, dense != nullptr, count, us / static_cast<double>(copies));
    }
  }

 private:
  void print(DType dtype, bool is_cublaslt, int64_t tokens, double us) {
    const auto bytes = static_cast<double>(matrix_bytes(dtype, shape_.n, shape_.k));
    const double ops = 2 * static_cast<double>(tokens * shape_.n * shape_.k);
    const GpuCeilings& most = rig_.ceilings();
    std::printf("| %s, %lld x %lld | %s %s | %lld | %.1f | %s | %s |\n", shape_.name,
                static_cast<long long>(shape_.n), static_cast<long long>(shape_.k),
                to_string(dtype), is_cublaslt ? "cuBLASLt, pinned" : "own",
                static_cast<long long>(tokens), us,
                rate_and_share(bytes / us / 1e3, most.copy_bytes_per_us / 1e3).c_str(),
                rate_and_share(ops / us / 1e6, most.ops_per_us / 1e6).c_str());
    std::fflush(stdout);
  }

  GpuBenchRig& rig_;
  ProductShape shape_;
  const uint16_t* bf16_ = nullptr;
  const void* quantised_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace

void bench_products(GpuBenchRig& rig) {
  std::vector<ProductShape> shapes = {{"Qwen3-30B-A3B q", 4096, 2048},
                                      {"DeepSeek-V3 o", 7168, 16384}};
  std::vector<int64_t> tokens = {1, 16, 128, 1024, 4096};
  if (rig.options().is_tiny) {
    shapes = {{"tiny", 64, 64}};
    tokens = {1, 9};
  }
  std::printf(
      "\n| dense product | weights | tokens | us | GB/s of weights | of copy | TFLOP/s | of "
      "cuBLASLt |\n|---|---|---:|---:|---:|---:|---:|---:|\n");
  std::string notes;
  for (const ProductShape& shape : shapes) {
    {
      ProductTable table(rig, shape, tokens.back());
      const bool has_cublaslt = rig.ceilings().without_cublaslt.empty();
      std::unique_ptr<DenseProducts> dense;
      if (has_cublaslt) {
        const DenseShape one{.n = shape.n, .k = shape.k, .max_tokens = tokens.back()};
        dense = make_dense_products(rig.device(), {&one, 1}, {});
        notes += dense->reports().front().text() + "\n";
        if (dense->reports().front().fits) table.lines(DType::kBF16, tokens, dense.get());
      }
      for (const DType dtype : {DType::kBF16, DType::kQ8, DType::kQ4}) {
        table.lines(dtype, tokens, nullptr);
      }
    }
    rig.clear();
  }
  std::printf("\n%s", notes.c_str());
}

}  // namespace colibri
