// One weight and rows in the GPU's memory, with DenseProducts made for their shape.
#pragma once

#include "kernels/cuda/dense.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {

class DenseRig {
 public:
  static constexpr float kMark = 12345.0f;  // of output that nobody may write

  // Without own times, nothing is measured: the algorithms are the first that fit.
  explicit DenseRig(const DenseShape& shape, DenseOptions options = {});

  DenseProducts& dense() { return *dense_; }
  // The rows as they lie, and the first `rows` of them multiplied; [rows, n] without gaps.
  MatMul op(int64_t rows);
  std::vector<float> multiply(int64_t rows);
  std::vector<float> multiply_with(Ops& ops, int64_t rows);
  // As a graph, run twice.
  std::vector<float> multiply_replayed(int64_t rows);
  // Row after row, each in a call of its own.
  std::vector<float> each_row_alone(int64_t rows);
  std::vector<float> on_the_cpu(int64_t rows);

  void use_bias() { uses_bias_ = true; }
  const std::vector<float>& bias() const { return bias_; }
  // Numbers between the rows of x (f32 only) and of the output.
  void use_gaps(int64_t x_gap, int64_t out_gap);
  // What lies in the output outside the rows last multiplied.
  std::vector<float> untouched() const { return untouched_; }

 private:
  void place_rows();
  std::vector<float> take_result(int64_t rows);

  CudaRig rig_;
  DenseShape shape_;
  std::unique_ptr<DenseProducts> dense_;
  std::vector<float> x_, weight_, bias_, untouched_;
  int64_t x_stride_, out_stride_;
  bool uses_bias_ = false;
  std::unique_ptr<DeviceArray<float>> device_x_, device_bias_, out_;
  std::unique_ptr<DeviceArray<uint16_t>> device_x_bf16_, device_weight_bf16_;
  std::unique_ptr<DeviceArray<float>> device_weight_;
};

std::vector<float> first_rows(const std::vector<float>& values, int64_t rows, int64_t width);

}  // namespace colibri
