// The experts' feed-forward: what one of eight GPUs holds of a layer, each expert with as many
// rows, and one expert alone.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/quantised.h"
#include "tests/gpu/bench_rig.h"

namespace colibri {
namespace {

struct ExpertShape {
  const char* name;
  int64_t hidden, width;
  int32_t num_experts;  // of a layer on one of eight GPUs
};

// Layers' experts one after the other, so that no call finds its weights in the cache.
struct ExpertLayers {
  std::vector<const ExpertWeights*> layers;
  int64_t expert_bytes = 0;
};

ExpertLayers make_layers(GpuBenchRig& rig, const ExpertShape& shape, DType dtype) {
  ExpertLayers made;
  const int64_t inner = matrix_bytes(dtype, shape.width, shape.hidden);
  const int64_t down = matrix_bytes(dtype, shape.hidden, shape.width);
  made.expert_bytes = 2 * inner + down;
  const int64_t layer_bytes = shape.num_experts * made.expert_bytes;
  const int64_t enough = rig.options().is_tiny ? 1 : int64_t{1} << 30;  // twenty times the cache
  const int64_t num_layers = std::max<int64_t>(1, enough / layer_bytes);
  const auto of_hidden = weight_pattern(dtype, shape.hidden);
  const auto of_width = weight_pattern(dtype, shape.width);
  for (int64_t l = 0; l < num_layers; ++l) {
    // Gates and ups first, then downs: two fills a layer.
    auto* gates = static_cast<unsigned char*>(rig.allocate(shape.num_experts * 2 * inner));
    auto* downs = static_cast<unsigned char*>(rig.allocate(shape.num_experts * down));
    rig.fill(gates, shape.num_experts * 2 * inner, of_hidden);
    rig.fill(downs, shape.num_experts * down, of_width);
    std::vector<ExpertWeights> experts;
    for (int32_t e = 0; e < shape.num_experts; ++e) {
      experts.push_back({{gates + 2 * e * inner, dtype, shape.width, shape.hidden},
                         {gates + (2 * e + 1) * inner, dtype, shape.width, shape.hidden},
                         {downs + e * down, dtype, shape.hidden, shape.width}});
    }
    made.layers.push_back(rig.upload(experts));
  }
  return made;
}

// Rows and scratch for the largest call; results as activations in bf16 have them.
GroupedFfn make_call(GpuBenchRig& rig, const ExpertShape& shape, DType dtype, int64_t max_pairs) {
  GroupedFfn op{.weight_dtype = dtype,
                .hidden_size = shape.hidden,
                .width = shape.width,
                .x_stride = shape.hidden};
  std::vector<int32_t> pair_row(static_cast<size_t>(max_pairs));
  std::iota(pair_row.begin(), pair_row.end(), 0);
  std::vector<int64_t> out_offset;
  for (int64_t p = 0; p < max_pairs; ++p) out_offset.push_back(p * shape.hidden);
  op.pair_row = rig.upload(pair_row);
  op.out_offset = rig.upload(out_offset);
  op.out_bf16 = static_cast<uint16_t*>(rig.allocate(max_pairs * shape.hidden * 2));
  op.hidden = static_cast<float*>(rig.allocate(max_pairs * 2 * shape.width * 4));
  const auto wide = bench_floats(std::min<int64_t>(max_pairs, 64) * shape.hidden);
  auto* x = static_cast<float*>(rig.allocate(max_pairs * shape.hidden * 4));
  const auto* bytes = reinterpret_cast<const unsigned char*>(wide.data());
  rig.fill(x, max_pairs * shape.hidden * 4, {bytes, bytes + wide.size() * 4});
  if (is_quantised(dtype)) {
    void* rows = rig.allocate(max_pairs * activation_row_bytes(shape.hidden));
    op.hidden_quantised = rig.allocate(max_pairs * activation_row_bytes(shape.width));
    op.x_quantised = rows;
    rig.ops().quantise_rows({.x = x,
                             .out = rows,
                             .num_rows = max_pairs,
                             .width = shape.hidden,
                             .x_stride = shape.hidden},
                            rig.stream());
  } else {
    auto* rows = static_cast<uint16_t*>(rig.allocate(max_pairs * shape.hidden * 2));
    op.x_bf16 = rows;
    rig.ops().round_rows({.x = x,
                          .out = rows,
                          .num_rows = max_pairs,
                          .width = shape.hidden,
                          .x_stride = shape.hidden},
                         rig.stream());
  }
  rig.stream().synchronize();
  return op;
}

class ExpertTable {
 public:
  ExpertTable(GpuBenchRig& rig, const ExpertShape& shape, DType dtype, int64_t max_rows)
      : rig_(rig),
        shape_(shape),
        dtype_(dtype),
        layers_(make_layers(rig, shape, dtype)),
        op_(make_call(rig, shape, dtype, max_rows * shape.num_experts)) {}

  // A line of the table: `experts` of each layer with `rows` each.
  void line(int32_t experts, int64_t rows) {
    std::vector<int32_t> begin;
    for (int32_t g = 0; g <= experts; ++g) begin.push_back(static_cast<int32_t>(g * rows));
    GroupedFfn op = op_;
    op.group_begin = rig_.upload(begin);
    op.num_groups = experts;
    op.num_pairs = experts * rows;
    const double us = rig_.time_us([&] {
      for (const ExpertWeights* layer : layers_.layers) {
        op.experts = layer;
        rig_.ops().grouped_ffn(op, rig_.stream());
      }
    });
    const auto calls = static_cast<double>(layers_.layers.size());
    const double bytes = calls * static_cast<double>(experts * layers_.expert_bytes);
    const double ops = calls * 6 * static_cast<double>(op.num_pairs * shape_.hidden * shape_.width);
    const GpuCeilings& most = rig_.ceilings();
    std::printf("| %s, %d experts | %s | %lld | %.1f | %s | %s |\n", shape_.name, experts,
                to_string(dtype_), static_cast<long long>(rows), us / calls,
                rate_and_share(bytes / us / 1e3, most.copy_bytes_per_us / 1e3).c_str(),
                rate_and_share(ops / us / 1e6, most.ops_per_us / 1e6).c_str());
    std::fflush(stdout);
  }

 private:
  GpuBenchRig& rig_;
  ExpertShape shape_;
  DType dtype_;
  ExpertLayers layers_;
  GroupedFfn op_;
};

}  // namespace

void bench_experts(GpuBenchRig& rig) {
  std::vector<ExpertShape> shapes = {{"Qwen3-30B-A3B", 2048, 768, 16},
                                     {"DeepSeek-V3", 7168, 2048, 32}};
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  if (rig.options().is_tiny) {
    shapes = {{"tiny", 128, 64, 2}};
    rows = {1, 9};
  }
  std::printf(
      "\n| experts' feed-forward | weights | rows an expert | us a call | GB/s of weights | of "
      "copy | TFLOP/s | of cuBLASLt |\n|---|---|---:|---:|---:|---:|---:|---:|\n");
  for (const ExpertShape& shape : shapes) {
    for (const DType dtype : {DType::kBF16, DType::kQ8, DType::kQ4}) {
      {
        ExpertTable table(rig, shape, dtype, rows.back());
        table.line(1, 1);
        for (const int64_t count : rows) table.line(shape.num_experts, count);
      }
      rig.clear();
    }
  }
}

}  // namespace colibri
