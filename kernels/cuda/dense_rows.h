// Rows of f32 copied from one pitch to another. CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace colibri::cuda {

// out[t, i] = x[t, i] (+ bias[i]) over `width` numbers of `num_rows` rows. bias [width] or null;
// out may be x, with equal strides.
struct DenseRows {
  const float* x = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  int64_t num_rows = 0;
  int64_t width = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
};
void copy_dense_rows(const DenseRows&, cudaStream_t stream);

}  // namespace colibri::cuda
