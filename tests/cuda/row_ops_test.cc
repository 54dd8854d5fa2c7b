// Operations that move rows or take one number at a time, against the CPU backend.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/dtype.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> some_rows(int64_t count, int64_t num_rows) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int32_t>((i * 7 + 3) % static_cast<size_t>(num_rows));
  }
  return rows;
}

template <class T>
std::string compare_embed(DType dtype, const std::vector<T>& table, int64_t width, int64_t tokens) {
  CudaRig rig;
  const auto ids = some_rows(tokens, 11);
  std::vector<float> want(static_cast<size_t>(tokens * width));
  EmbedRows op{.table = {table.data(), dtype, 11, width},
               .ids = ids.data(),
               .out = want.data(),
               .num_tokens = tokens};
  rig.cpu->embed(op, *rig.cpu_stream);
  DeviceArray<T> device_table(rig, table);
  DeviceArray<int32_t> device_ids(rig, ids);
  DeviceArray<float> out(rig, want.size());
  op.table.data = device_table.data();
  op.ids = device_ids.data();
  op.out = out.data();
  rig.cuda->embed(op, *rig.stream);
  return difference(out.host(), want);
}

TEST(CudaEmbed, HasTheCpusBitsForEveryWidthAndNumberOfTokens) {
  for (const int64_t width : {1, 4, 7, 8, 36, 520, 1100}) {
    const auto table = random_floats(11 * width, 1);
    for (const int64_t tokens : {0, 1, 5}) {
      EXPECT_EQ(compare_embed(DType::kF32, table, width, tokens), "") << width;
      EXPECT_EQ(compare_embed(DType::kBF16, to_bf16(table), width, tokens), "") << width;
    }
  }
}

std::string compare_gather(int64_t width, const std::vector<int32_t>& rows) {
  CudaRig rig;
  auto x = random_floats(9 * width, 1);
  std::vector<float> want(rows.size() * static_cast<size_t>(width), 5.0f);
  const std::vector<float> before = want;
  GatherRows op{.x = x.data(),
                .row = rows.data(),
                .out = want.data(),
                .num_rows = static_cast<int64_t>(rows.size()),
                .width = width};
  rig.cpu->gather_rows(op, *rig.cpu_stream);
  DeviceArray<float> device_x(rig, x), out(rig, before);
  DeviceArray<int32_t> device_rows(rig, rows);
  op.x = device_x.data();
  op.row = device_rows.data();
  op.out = out.data();
  rig.cuda->gather_rows(op, *rig.stream);
  return difference(out.host(), want);
}

TEST(CudaGather, CopiesRowsOfEveryWidth) {
  for (const int64_t width : {1, 4, 6, 515, 1100}) {
    for (const int64_t rows : {0, 1, 13}) {
      EXPECT_EQ(compare_gather(width, some_rows(rows, 9)), "") << width << " x " << rows;
    }
  }
}

// x as it comes out of f on both backends.
template <class F>
std::string compare_pointwise(const std::vector<float>& x, const std::vector<float>& other, F f) {
  CudaRig rig;
  std::vector<float> want = x;
  Elementwise op{.x = want.data(),
                 .other = other.data(),
                 .count = static_cast<int64_t>(x.size()),
                 .low = -0.25f,
                 .high = 0.5f};
  f(*rig.cpu, op, *rig.cpu_stream);
  DeviceArray<float> device_x(rig, x), device_other(rig, other);
  op.x = device_x.data();
  op.other = device_other.data();
  f(*rig.cuda, op, *rig.stream);
  return difference(device_x.host(), want);
}

// Random numbers from tiny to huge, and what is not finite.
std::vector<float> all_sorts(int64_t count, uint32_t seed) {
  std::vector<float> x = random_floats(count, seed);
  const float factors[] = {1, 100, 1e-30f, 1e30f};
  for (size_t i = 0; i < x.size(); ++i) x[i] *= factors[i / 3 % 4];
  const float special[] = {kInf, -kInf, kNan, 0.0f, -0.0f, 88.8f, -103.9f};
  for (size_t i = 0; i < std::size(special); ++i) {
    if (5 * i < x.size()) x[5 * i] = special[i];
  }
  return x;
}

TEST(CudaPointwise, HasTheCpusBitsForEveryCount) {
  for (const int64_t count : {0, 1, 3, 4, 1027, 2048}) {
    const auto x = all_sorts(count, 1), other = random_floats(count, 2);
    EXPECT_EQ(compare_pointwise(x, other, [](Ops& o, auto& op, Stream& s) { o.add(op, s); }), "");
    EXPECT_EQ(compare_pointwise(x, other, [](Ops& o, auto& op, Stream& s) { o.clamp(op, s); }), "");
    EXPECT_EQ(compare_pointwise(x, other, [](Ops& o, auto& op, Stream& s) { o.sigmoid(op, s); }),
              "");
    const auto silu = [](Ops& o, auto& op, Stream& s) {
      o.silu_mul({.gate = op.x, .up = op.other, .out = op.x, .count = op.count}, s);
    };
    EXPECT_EQ(compare_pointwise(x, other, silu), "");
  }
}

struct CombineCase {
  int64_t tokens, top_k, hidden;
  bool shared = false, gated = false;
  int64_t skew = 0;  // numbers by which results are off a multiple of four
  bool bf16 = false;
};

std::string compare_combine(const CombineCase& c) {
  CudaRig rig;
  const auto pairs = static_cast<size_t>(c.tokens * c.top_k);
  const auto residual = random_floats(c.tokens * c.hidden, 1);
  const auto results = random_floats((c.tokens * c.top_k + 1) * c.hidden + 8, 2);
  const auto results_bf16 = to_bf16(results);
  const auto weights = random_floats(c.tokens * c.top_k, 3);
  const auto shared = random_floats(c.tokens * c.hidden, 4), gate = random_floats(c.tokens, 5);
  std::vector<int64_t> offset(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    offset[i] = static_cast<int64_t>(i * 5 % pairs) * c.hidden + c.skew;
  }
  std::vector<float> want(residual.size());
  Combine op{.residual = residual.data(),
             .results = c.bf16 ? nullptr : results.data(),
             .results_bf16 = c.bf16 ? results_bf16.data() : nullptr,
             .result_offset = offset.data(),
             .weights = weights.data(),
             .shared = c.shared ? shared.data() : nullptr,
             .shared_gate = c.gated ? gate.data() : nullptr,
             .out = want.data(),
             .num_tokens = c.tokens,
             .top_k = c.top_k,
             .hidden_size = c.hidden};
  rig.cpu->combine(op, *rig.cpu_stream);
  DeviceArray<float> device_residual(rig, residual), device_results(rig, results),
      device_weights(rig, weights), device_shared(rig, shared), device_gate(rig, gate);
  DeviceArray<uint16_t> device_results_bf16(rig, results_bf16);
  DeviceArray<int64_t> device_offset(rig, offset);
  op.residual = device_residual.data();
  op.results = c.bf16 ? nullptr : device_results.data();
  op.results_bf16 = c.bf16 ? device_results_bf16.data() : nullptr;
  op.result_offset = device_offset.data();
  op.weights = device_weights.data();
  if (c.shared) op.shared = device_shared.data();
  if (c.gated) op.shared_gate = device_gate.data();
  op.out = device_residual.data();
  rig.cuda->combine(op, *rig.stream);
  return difference(device_residual.host(), want);
}

TEST(CudaCombine, HasTheCpusBitsForEveryShape) {
  for (const int64_t hidden : {1, 7, 64, 515, 1100}) {
    for (const int64_t top_k : {1, 3, 4, 9}) {
      EXPECT_EQ(compare_combine({3, top_k, hidden, false, false}), "") << hidden << " " << top_k;
    }
    EXPECT_EQ(compare_combine({2, 3, hidden, true, false}), "") << hidden;
    EXPECT_EQ(compare_combine({2, 3, hidden, true, true}), "") << hidden;
  }
  EXPECT_EQ(compare_combine({0, 2, 8, false, false}), "");
}

TEST(CudaCombine, TakesResultsAtAnyOffset) {
  for (const bool bf16 : {false, true}) {
    EXPECT_EQ(compare_combine({.tokens = 3, .top_k = 5, .hidden = 64, .skew = 3, .bf16 = bf16}),
              "");
  }
}

TEST(CudaCombine, TakesResultsInBf16) {
  for (const int64_t hidden : {1, 7, 64, 515, 1100}) {
    for (const int64_t top_k : {1, 8, 9}) {
      EXPECT_EQ(compare_combine({3, top_k, hidden, true, true, 0, true}), "")
          << hidden << " " << top_k;
    }
  }
}

}  // namespace
}  // namespace colibri
