#include "tests/cuda/dense_rig.h"

#include "base/cuda_check.h"
#include "base/dtype.h"

namespace colibri {
namespace {

constexpr int64_t kRows = 300;

DenseOptions without_times(DenseOptions options) {
  if (!options.time_us) options.measures = false;
  return options;
}

}  // namespace

DenseRig::DenseRig(const DenseShape& shape, DenseOptions options)
    : shape_(shape),
      dense_(make_dense_products(*rig_.device, {&shape, 1}, without_times(std::move(options)))),
      x_(random_floats(kRows * shape.k, 11)),
      weight_(random_floats(shape.n * shape.k, 12)),
      bias_(random_floats(shape.n, 13)),
      x_stride_(shape.k),
      out_stride_(shape.n),
      device_bias_(std::make_unique<DeviceArray<float>>(rig_, bias_)) {
  if (shape.dtype == DType::kBF16) {
    for (float& value : x_) value = bf16_to_float(float_to_bf16(value));
    for (float& value : weight_) value = bf16_to_float(float_to_bf16(value));
    device_weight_bf16_ = std::make_unique<DeviceArray<uint16_t>>(rig_, to_bf16(weight_));
  } else {
    device_weight_ = std::make_unique<DeviceArray<float>>(rig_, weight_);
  }
  place_rows();
}

void DenseRig::place_rows() {
  if (shape_.dtype == DType::kBF16) {
    device_x_bf16_ = std::make_unique<DeviceArray<uint16_t>>(rig_, to_bf16(x_));
  } else {
    std::vector<float> rows(static_cast<size_t>(kRows * x_stride_));
    for (int64_t row = 0; row < kRows; ++row) {
      std::copy_n(x_.begin() + row * shape_.k, shape_.k, rows.begin() + row * x_stride_);
    }
    device_x_ = std::make_unique<DeviceArray<float>>(rig_, rows);
  }
}

void DenseRig::use_gaps(int64_t x_gap, int64_t out_gap) {
  x_stride_ = shape_.k + x_gap;
  out_stride_ = shape_.n + out_gap;
  place_rows();
}

MatMul DenseRig::op(int64_t rows) {
  out_ = std::make_unique<DeviceArray<float>>(
      rig_, std::vector<float>(static_cast<size_t>((rows + 1) * out_stride_), kMark));
  MatMul op{.weight = {nullptr, shape_.dtype, shape_.n, shape_.k},
            .bias = uses_bias_ ? device_bias_->data() : nullptr,
            .out = out_->data(),
            .num_tokens = rows,
            .x_stride = x_stride_,
            .out_stride = out_stride_};
  if (shape_.dtype == DType::kBF16) {
    op.x_bf16 = device_x_bf16_->data();
    op.weight.data = device_weight_bf16_->data();
  } else {
    op.x = device_x_->data();
    op.weight.data = device_weight_->data();
  }
  return op;
}

std::vector<float> DenseRig::take_result(int64_t rows) {
  const std::vector<float> all = out_->host();
  std::vector<float> result;
  untouched_.clear();
  for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) {
    const bool is_result = i / out_stride_ < rows && i % out_stride_ < shape_.n;
    (is_result ? result : untouched_).push_back(all[static_cast<size_t>(i)]);
  }
  return result;
}

std::vector<float> DenseRig::multiply(int64_t rows) {
  dense_->run(op(rows), *rig_.stream);
  return take_result(rows);
}

std::vector<float> DenseRig::multiply_with(Ops& ops, int64_t rows) {
  ops.matmul(op(rows), *rig_.stream);
  return take_result(rows);
}

std::vector<float> DenseRig::multiply_replayed(int64_t rows) {
  const MatMul product = op(rows);
  const auto stream = static_cast<cudaStream_t>(rig_.stream->native_handle());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a capture");
  dense_->run(product, *rig_.stream);
  cuda_check(cudaStreamEndCapture(stream, &graph), "a capture's end");
  cuda_check(cudaGraphInstantiate(&replay, graph, 0), "a graph");
  for (int run = 0; run < 2; ++run) cuda_check(cudaGraphLaunch(replay, stream), "a replay");
  auto result = take_result(rows);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  return result;
}

std::vector<float> DenseRig::each_row_alone(int64_t rows) {
  std::vector<float> all;
  for (int64_t row = 0; row < rows; ++row) {
    MatMul one = op(1);
    if (one.x_bf16 != nullptr) one.x_bf16 += row * shape_.k;
    if (one.x != nullptr) one.x += row * x_stride_;
    dense_->run(one, *rig_.stream);
    const auto result = take_result(1);
    all.insert(all.end(), result.begin(), result.end());
  }
  return all;
}

std::vector<float> DenseRig::on_the_cpu(int64_t rows) {
  std::vector<float> out(static_cast<size_t>(rows * shape_.n));
  rig_.cpu->matmul({.x = x_.data(),
                    .weight = {weight_.data(), DType::kF32, shape_.n, shape_.k},
                    .out = out.data(),
                    .num_tokens = rows,
                    .x_stride = shape_.k,
                    .out_stride = shape_.n},
                   *rig_.cpu_stream);
  return out;
}

std::vector<float> first_rows(const std::vector<float>& values, int64_t rows, int64_t width) {
  return {values.begin(), values.begin() + rows * width};
}

}  // namespace colibri
