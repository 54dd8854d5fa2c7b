#include "tests/cuda/products_rig.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/dtype.h"
#include "base/quantised.h"
#include "kernels/cuda/packing.h"

namespace colibri {
namespace {

std::vector<unsigned char> bytes_of(const void* p, size_t count) {
  const auto* first = static_cast<const unsigned char*>(p);
  return {first, first + count};
}

// Numbers of products' rows, long enough for every case.
constexpr uint32_t kRowSeed = 11;

// Rows in one form, on the host.
struct TestRows {
  std::vector<float> wide;
  std::vector<unsigned char> quantised;
  std::vector<uint16_t> bf16;
};

TestRows make_rows(CudaRig& rig, Rows rows, const QuantiseRows& shape) {
  TestRows made;
  made.wide = random_floats(shape.num_rows * shape.x_stride, kRowSeed);
  QuantiseRows op = shape;
  op.x = made.wide.data();
  if (rows == Rows::kQuantised) {
    made.quantised.resize(static_cast<size_t>(op.num_rows * activation_row_bytes(op.width)));
    op.out = made.quantised.data();
    rig.cpu->quantise_rows(op, *rig.cpu_stream);
  }
  if (rows == Rows::kBf16) {
    made.bf16.resize(static_cast<size_t>(op.num_rows * op.width));
    rig.cpu->round_rows({.x = op.x,
                         .out = made.bf16.data(),
                         .num_rows = op.num_rows,
                         .width = op.width,
                         .x_stride = op.x_stride},
                        *rig.cpu_stream);
  }
  return made;
}

struct DeviceRows {
  DeviceRows(CudaRig& rig, const TestRows& rows)
      : wide(rig, rows.wide), quantised(rig, rows.quantised), bf16(rig, rows.bf16) {}
  DeviceArray<float> wide;
  DeviceArray<unsigned char> quantised;
  DeviceArray<uint16_t> bf16;
};

// Operands of `op` from `rows` (TestRows or DeviceRows).
template <class Op, class From>
void set_rows(Op& op, Rows kind, From& rows) {
  if (kind == Rows::kFloat) op.x = rows.wide.data();
  if (kind == Rows::kQuantised) op.x_quantised = rows.quantised.data();
  if constexpr (requires { op.x_bf16; }) {
    if (kind == Rows::kBf16) op.x_bf16 = rows.bf16.data();
  }
}

constexpr uint32_t kWeightSeed = 3;
constexpr float kUntouched = -77.0f;

MatMul matmul_of(const ProductCase& c) {
  return {.weight = {},
          .num_tokens = c.tokens,
          .x_stride = c.width + c.x_padding,
          .out_stride = c.outputs + c.out_padding};
}
QuantiseRows row_shape(const ProductCase& c) {
  return {.num_rows = c.tokens, .width = c.width, .x_stride = c.width + c.x_padding};
}
std::vector<float> bias_of(const ProductCase& c) {
  return random_floats(c.has_bias ? c.outputs : 0, 5);
}

std::vector<float> untouched_out(const ProductCase& c) {
  return std::vector<float>(static_cast<size_t>(c.tokens * (c.outputs + c.out_padding)),
                            kUntouched);
}

// The parts of a call to grouped_ffn that do not depend on the backend.
struct FfnIndex {
  explicit FfnIndex(const FfnCase& c) : begin(1, 0) {
    for (const int32_t rows : c.group_rows) begin.push_back(begin.back() + rows);
    const int32_t pairs = begin.back();
    for (int32_t p = 0; p < pairs; ++p) {
      row.push_back((p * 7 + 3) % kNumRows);
      offset.push_back((pairs - 1 - p) * c.hidden_size);
    }
  }
  static constexpr int32_t kNumRows = 67;
  int64_t pairs() const { return begin.back(); }
  std::vector<int32_t> begin, row;
  std::vector<int64_t> offset;
};

GroupedFfn ffn_of(const FfnCase& c, const FfnIndex& index) {
  return {.weight_dtype = c.dtype,
          .num_pairs = index.pairs() + c.unknown_pairs,
          .num_groups = static_cast<int32_t>(c.group_rows.size()),
          .hidden_size = c.hidden_size,
          .width = c.width,
          .x_stride = c.hidden_size + c.x_padding};
}

// One of two arrays (vectors, or DeviceArrays) takes the results.
void set_results(GroupedFfn& op, const FfnCase& c, auto& out, auto& out_bf16) {
  if (c.bf16_results) {
    op.out_bf16 = out_bf16.data();
  } else {
    op.out = out.data();
  }
}

struct FfnMatrices {
  FfnMatrices(const FfnCase& c, uint32_t seed)
      : gate(c.dtype, c.width, c.hidden_size, seed),
        up(c.dtype, c.width, c.hidden_size, seed + 1),
        down(c.dtype, c.hidden_size, c.width, seed + 2) {}
  TestMatrix gate, up, down;
};

std::vector<FfnMatrices> matrices_of(const FfnCase& c) {
  std::vector<FfnMatrices> all;
  for (size_t g = 0; g < c.group_rows.size(); ++g) {
    all.emplace_back(c, static_cast<uint32_t>(100 + 3 * g));
  }
  return all;
}

TestRows ffn_rows(CudaRig& rig, const FfnCase& c, Rows rows) {
  return make_rows(rig, rows,
                   {.num_rows = FfnIndex::kNumRows,
                    .width = c.hidden_size,
                    .x_stride = c.hidden_size + c.x_padding});
}

}  // namespace

TestMatrix::TestMatrix(DType type, int64_t num_rows, int64_t num_cols, uint32_t seed)
    : dtype(type), rows(num_rows), cols(num_cols) {
  const auto wide = random_floats(rows * cols, seed);
  if (dtype == DType::kF32) {
    host = bytes_of(wide.data(), wide.size() * sizeof(float));
  } else if (dtype == DType::kBF16) {
    host = bytes_of(to_bf16(wide).data(), wide.size() * sizeof(uint16_t));
  } else {
    host.resize(static_cast<size_t>(matrix_bytes(dtype, rows, cols)));
    EXPECT_TRUE(quantise_matrix(dtype, wide.data(), rows, cols, host.data()));
  }
  cuda = host;
  if (is_quantised(dtype)) pack_for_cuda(dtype, host.data(), rows, cols, cuda.data());
}

std::vector<float> cpu_matmul(const ProductCase& c, Rows rows) {
  CudaRig rig;
  const TestMatrix weight(c.dtype, c.outputs, c.width, kWeightSeed);
  TestRows x = make_rows(rig, rows, row_shape(c));
  const std::vector<float> bias = bias_of(c);
  std::vector<float> out = untouched_out(c);
  MatMul op = matmul_of(c);
  set_rows(op, rows, x);
  op.weight = weight.host_view();
  op.bias = c.has_bias ? bias.data() : nullptr;
  op.out = out.data();
  rig.cpu->matmul(op, *rig.cpu_stream);
  return out;
}

std::vector<float> cuda_matmul(const ProductCase& c, Rows rows, const WeightObserver& observer) {
  CudaRig rig;
  const TestMatrix weight(c.dtype, c.outputs, c.width, kWeightSeed);
  DeviceRows x(rig, make_rows(rig, rows, row_shape(c)));
  DeviceArray<unsigned char> device_weight(rig, weight.cuda);
  DeviceArray<float> bias(rig, bias_of(c)), out(rig, untouched_out(c));
  if (observer) observer(device_weight.data(), weight.cuda.size());
  MatMul op = matmul_of(c);
  set_rows(op, rows, x);
  op.weight = weight.cuda_view(device_weight.data());
  op.bias = c.has_bias ? bias.data() : nullptr;
  op.out = out.data();
  rig.cuda->matmul(op, *rig.stream);
  return out.host();
}

std::string compare_batched(const BatchedCase& c) {
  CudaRig rig;
  const TestMatrix weight(c.dtype, c.heads * c.outputs, c.width, kWeightSeed);
  const Rows rows = is_quantised(c.dtype) ? Rows::kQuantised : Rows::kFloat;
  const int64_t head_stride = c.width + c.x_padding;
  BatchedMatMul op{.weight = {},
                   .num_tokens = c.tokens,
                   .num_heads = c.heads,
                   .x_stride = c.heads * head_stride,
                   .x_head_stride = head_stride,
                   .out_stride = c.heads * (c.outputs + 1),
                   .out_head_stride = c.outputs + 1};
  TestRows x = make_rows(
      rig, rows, {.num_rows = c.tokens, .width = c.width, .x_stride = c.heads * head_stride});
  std::vector<float> want(static_cast<size_t>(c.tokens * op.out_stride), kUntouched);
  DeviceRows device_x(rig, x);
  DeviceArray<unsigned char> device_weight(rig, weight.cuda);
  DeviceArray<float> out(rig, want);
  set_rows(op, rows, x);
  op.weight = weight.host_view();
  op.out = want.data();
  rig.cpu->batched_matmul(op, *rig.cpu_stream);
  set_rows(op, rows, device_x);
  op.weight = weight.cuda_view(device_weight.data());
  op.out = out.data();
  rig.cuda->batched_matmul(op, *rig.stream);
  return difference(out.host(), want);
}

std::vector<float> cpu_ffn(const FfnCase& c, Rows rows) {
  CudaRig rig;
  const FfnIndex index(c);
  const auto matrices = matrices_of(c);
  TestRows x = ffn_rows(rig, c, rows);
  std::vector<ExpertWeights> experts;
  for (const FfnMatrices& m : matrices) {
    experts.push_back({m.gate.host_view(), m.up.host_view(), m.down.host_view()});
  }
  std::vector<float> out(static_cast<size_t>(index.pairs() * c.hidden_size), kUntouched);
  std::vector<uint16_t> out_bf16 = to_bf16(out);
  std::vector<float> hidden(static_cast<size_t>(index.pairs() * 2 * c.width));
  std::vector<unsigned char> hidden_quantised(
      static_cast<size_t>(index.pairs() * activation_row_bytes(c.width)));
  GroupedFfn op = ffn_of(c, index);
  op.num_pairs = index.pairs();
  set_rows(op, rows, x);
  op.experts = experts.data();
  op.group_begin = index.begin.data();
  op.pair_row = index.row.data();
  op.out_offset = index.offset.data();
  set_results(op, c, out, out_bf16);
  op.hidden = hidden.data();
  op.hidden_quantised = hidden_quantised.data();
  rig.cpu->grouped_ffn(op, *rig.cpu_stream);
  return c.bf16_results ? from_bf16(out_bf16) : out;
}

std::vector<float> cuda_ffn(const FfnCase& c, Rows rows, const WeightObserver& observer) {
  CudaRig rig;
  const FfnIndex index(c);
  TestRows x = ffn_rows(rig, c, rows);
  std::vector<std::unique_ptr<DeviceArray<unsigned char>>> memory;
  std::vector<ExpertWeights> host_experts;
  const auto upload = [&](const TestMatrix& m) {
    memory.push_back(std::make_unique<DeviceArray<unsigned char>>(rig, m.cuda));
    if (observer) observer(memory.back()->data(), m.cuda.size());
    return m.cuda_view(memory.back()->data());
  };
  for (const FfnMatrices& m : matrices_of(c)) {
    host_experts.push_back({upload(m.gate), upload(m.up), upload(m.down)});
  }
  const auto pairs = static_cast<size_t>(index.pairs());
  DeviceRows device_x(rig, x);
  DeviceArray<ExpertWeights> experts(rig, host_experts);
  DeviceArray<int32_t> begin(rig, index.begin), row(rig, index.row);
  DeviceArray<int64_t> offset(rig, index.offset);
  const std::vector<float> untouched(pairs * static_cast<size_t>(c.hidden_size), kUntouched);
  DeviceArray<float> out(rig, untouched);
  DeviceArray<uint16_t> out_bf16(rig, to_bf16(untouched));
  DeviceArray<float> hidden(rig, pairs * static_cast<size_t>(2 * c.width));
  DeviceArray<unsigned char> hidden_quantised(
      rig, pairs * static_cast<size_t>(activation_row_bytes(c.width)));
  GroupedFfn op = ffn_of(c, index);
  set_rows(op, rows, device_x);
  op.experts = experts.data();
  op.group_begin = begin.data();
  op.pair_row = row.data();
  op.out_offset = offset.data();
  set_results(op, c, out, out_bf16);
  op.hidden = hidden.data();
  op.hidden_quantised = hidden_quantised.data();
  rig.cuda->grouped_ffn(op, *rig.stream);
  return c.bf16_results ? from_bf16(out_bf16.host()) : out.host();
}

namespace {

std::vector<double> widened(const std::vector<uint16_t>& values) {
  std::vector<double> out;
  for (const uint16_t value : values) out.push_back(static_cast<double>(bf16_to_float(value)));
  return out;
}
std::vector<double> widened(const TestMatrix& m) {
  std::vector<uint16_t> values(m.host.size() / 2);
  std::memcpy(values.data(), m.host.data(), m.host.size());
  return widened(values);
}
double dot(const double* a, const double* b, int64_t count) {
  return std::inner_product(a, a + count, b, 0.0);
}

}  // namespace

std::vector<float> exact_matmul(const ProductCase& c) {
  CudaRig rig;
  const auto x = widened(make_rows(rig, Rows::kBf16, row_shape(c)).bf16);
  const auto weight = widened(TestMatrix(c.dtype, c.outputs, c.width, kWeightSeed));
  const std::vector<float> bias = bias_of(c);
  std::vector<float> out(static_cast<size_t>(c.tokens * (c.outputs + c.out_padding)), kUntouched);
  for (int64_t t = 0; t < c.tokens; ++t) {
    for (int64_t n = 0; n < c.outputs; ++n) {
      const double sum = dot(&x[static_cast<size_t>(t * c.width)],
                             &weight[static_cast<size_t>(n * c.width)], c.width);
      const double shift = c.has_bias ? static_cast<double>(bias[static_cast<size_t>(n)]) : 0.0;
      out[static_cast<size_t>(t * (c.outputs + c.out_padding) + n)] =
          static_cast<float>(sum + shift);
    }
  }
  return out;
}

std::vector<float> exact_ffn(const FfnCase& c) {
  CudaRig rig;
  const FfnIndex index(c);
  const auto x = widened(ffn_rows(rig, c, Rows::kBf16).bf16);
  std::vector<float> out(static_cast<size_t>(index.pairs() * c.hidden_size));
  for (size_t g = 0; g < c.group_rows.size(); ++g) {
    const FfnMatrices m(c, static_cast<uint32_t>(100 + 3 * g));
    const auto gate = widened(m.gate), up = widened(m.up), down = widened(m.down);
    for (auto p = static_cast<size_t>(index.begin[g]); p < static_cast<size_t>(index.begin[g + 1]);
         ++p) {
      const double* row = &x[static_cast<size_t>(index.row[p] * c.hidden_size)];
      std::vector<double> hidden;
      for (int64_t i = 0; i < c.width; ++i) {
        const auto at = static_cast<size_t>(i * c.hidden_size);
        const double a = dot(row, &gate[at], c.hidden_size);
        const double value = a / (1 + std::exp(-a)) * dot(row, &up[at], c.hidden_size);
        const uint16_t rounded = float_to_bf16(static_cast<float>(value));
        hidden.push_back(static_cast<double>(bf16_to_float(rounded)));
      }
      for (int64_t n = 0; n < c.hidden_size; ++n) {
        out[static_cast<size_t>(index.offset[p] + n)] = static_cast<float>(
            dot(hidden.data(), &down[static_cast<size_t>(n * c.width)], c.width));
      }
    }
  }
  return out;
}

std::vector<float> rounded(const std::vector<float>& values) { return from_bf16(to_bf16(values)); }

double relative_rms(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    size += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return size == 0 ? std::sqrt(error) : std::sqrt(error / size);
}

}  // namespace colibri
