// Decode's attention: one token of each sequence over its whole context, caches in bf16.
#include <cstdio>
#include <numeric>

#include "tests/gpu/bench_rig.h"

namespace colibri {
namespace {

struct AttentionShape {
  const char* name;
  KvLayout layout;
  int64_t num_heads;
};

struct Load {
  int64_t sequences, context;
};

void line(GpuBenchRig& rig, const AttentionShape& shape, const Load& load) {
  const int64_t pages_each = (load.context + kTile - 1) / kTile;
  const int64_t pages = pages_each * load.sequences;
  const int64_t bytes = pages * shape.layout.page_bytes();
  std::vector<int32_t> table(static_cast<size_t>(pages));
  std::iota(table.begin(), table.end(), 0);
  const int32_t* device_table = rig.upload(table);
  std::vector<KvRow> rows;
  const auto last = static_cast<int32_t>(load.context - 1);
  for (int64_t s = 0; s < load.sequences; ++s)
    rows.push_back({device_table + s * pages_each, last});
  void* pool = rig.allocate(bytes);
  rig.fill(pool, bytes, weight_pattern(DType::kBF16, shape.layout.key_dim));
  const int64_t q_width = shape.num_heads * shape.layout.key_dim;
  const int64_t out_width = shape.num_heads * shape.layout.value_dim;
  Attention op{.layout = shape.layout,
               .pool = pool,
               .rows = rig.upload(rows),
               .q = rig.upload(bench_floats(load.sequences * q_width)),
               .out = static_cast<float*>(rig.allocate(load.sequences * out_width * 4)),
               .num_tokens = load.sequences,
               .num_heads = shape.num_heads,
               .q_stride = q_width,
               .out_stride = out_width,
               .softmax_scale = 0.01f,
               .max_position = last};
  op.scratch = rig.allocate(rig.ops().attention_scratch_bytes(op, rig.stream()));
  const double us = rig.time_us([&] { rig.ops().attention(op, rig.stream()); });
  const double ops = 2 * static_cast<double>(load.sequences * load.context * shape.num_heads) *
                     static_cast<double>(shape.layout.key_dim + shape.layout.value_dim);
  std::printf(
      "| %s | %lld | %lld | %.1f | %s | %.1f |\n", shape.name,
      static_cast<long long>(load.sequences), static_cast<long long>(load.context), us,
      rate_and_share(static_cast<double>(bytes) / us / 1e3, rig.ceilings().copy_bytes_per_us / 1e3)
          .c_str(),
      ops / us / 1e6);
  std::fflush(stdout);
  rig.clear();
}

}  // namespace

void bench_attention(GpuBenchRig& rig) {
  std::vector<AttentionShape> shapes = {
      {"Qwen3-30B-A3B, 32 heads of 128, 4 kv",
       {.dtype = DType::kBF16, .num_kv_heads = 4, .key_dim = 128, .value_dim = 128},
       32},
      {"DeepSeek-V3, 128 heads, latent 576",
       {.dtype = DType::kBF16, .key_dim = 576, .value_dim = 512, .shared_value = true},
       128}};
  std::vector<Load> loads = {{1, 4096}, {1, 32768}, {16, 4096}, {64, 4096}};
  if (rig.options().is_tiny) {
    // Heads as wide as above, so that the shared memory is that of real calls.
    for (AttentionShape& shape : shapes) {
      shape.layout.num_kv_heads = 1;
      shape.num_heads = 2;
    }
    loads = {{1, 130}, {3, 70}};
  }
  std::printf(
      "\n| decode attention | sequences | context | us | GB/s of cache | of copy | TFLOP/s "
      "|\n|---|---:|---:|---:|---:|---:|---:|\n");
  for (const AttentionShape& shape : shapes) {
    for (const Load& load : loads) line(rig, shape, load);
  }
}

}  // namespace colibri
