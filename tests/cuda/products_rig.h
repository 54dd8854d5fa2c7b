// Matrix products on the GPU and on the CPU backend, from one description.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/cuda_rig.h"

namespace colibri {

// What goes into a product: f32, quantised or bf16 rows.
enum class Rows { kFloat, kQuantised, kBf16 };

// A matrix of random numbers in the form of each backend.
struct TestMatrix {
  TestMatrix(DType dtype, int64_t rows, int64_t cols, uint32_t seed);
  DType dtype;
  int64_t rows, cols;
  std::vector<unsigned char> host, cuda;
  MatrixView host_view() const { return {host.data(), dtype, rows, cols}; }
  MatrixView cuda_view(const void* at) const { return {at, dtype, rows, cols}; }
};

struct ProductCase {
  DType dtype = DType::kF32;
  int64_t tokens = 0, outputs = 0, width = 0;
  int64_t x_padding = 0;  // of f32 rows
  int64_t out_padding = 0;
  bool has_bias = false;
};

// Called with the GPU's copy of each weight matrix before it is read.
using WeightObserver = std::function<void(const void* memory, size_t bytes)>;

// The GPU's matmul. Row t is the same numbers whatever `tokens` is.
std::vector<float> cuda_matmul(const ProductCase& c, Rows rows,
                               const WeightObserver& observer = nullptr);
// The CPU's, f32 or quantised rows only.
std::vector<float> cpu_matmul(const ProductCase& c, Rows rows);

struct BatchedCase {
  DType dtype = DType::kF32;
  int64_t tokens = 0, heads = 0, outputs = 0, width = 0;
  int64_t x_padding = 0;  // behind each head's row
};
// "" or how the GPU's batched_matmul differs from the CPU's.
std::string compare_batched(const BatchedCase& c);

struct FfnCase {
  DType dtype = DType::kF32;
  int64_t hidden_size = 0, width = 0;
  std::vector<int32_t> group_rows = {};  // rows of each group
  int64_t x_padding = 0;
  int64_t unknown_pairs = 0;  // num_pairs is so much more than there are
  bool bf16_results = false;
};
// The results of all pairs, the last pair's first, as f32. Pair p has the same row whatever the
// groups are.
std::vector<float> cuda_ffn(const FfnCase& c, Rows rows, const WeightObserver& observer = nullptr);
std::vector<float> cpu_ffn(const FfnCase& c, Rows rows);

// The same for bf16 rows and weights with every sum in f64, hidden values rounded to bf16.
std::vector<float> exact_matmul(const ProductCase& c);
std::vector<float> exact_ffn(const FfnCase& c);

// Numbers rounded to bf16, as f32.
std::vector<float> rounded(const std::vector<float>& values);

// Relative root mean square of got - want.
double relative_rms(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace colibri
