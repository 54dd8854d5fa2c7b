// grouped_ffn of q8 and q4 experts against the steps it is made of, bit for bit.
#include <gtest/gtest.h>

#include "tests/kernels/quantised_rig.h"

namespace colibri {
namespace {

constexpr int32_t kRows = 13;

// Experts with random weights, rows shared among them, results scattered by offset.
struct Experts {
  Experts(DType dtype, int64_t hidden, int64_t inner, std::vector<int32_t> pairs_per_group)
      : hidden_size(hidden), width(inner) {
    uint32_t seed = 10;
    group_begin.push_back(0);
    for (const int32_t pairs : pairs_per_group) {
      group_begin.push_back(group_begin.back() + pairs);
      gates.push_back(weight(dtype, inner, hidden, seed++));
      ups.push_back(weight(dtype, inner, hidden, seed++));
      downs.push_back(weight(dtype, hidden, inner, seed++));
    }
    const std::vector<float> wide = random_floats(kRows * hidden, 9);
    x = plain_quantise(wide.data(), kRows, hidden, hidden);
    const int32_t num_pairs = group_begin.back();
    for (int32_t p = 0; p < num_pairs; ++p) {
      pair_row.push_back(p * 5 % kRows);
      out_offset.push_back(int64_t{num_pairs - 1 - p} * (hidden_size + 3));
    }
  }
  // Values of about one, so that the activation is neither zero nor its argument.
  static PackedMatrix weight(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
    const std::vector<float> wide = random_floats(rows * cols, seed);
    PackedMatrix packed = PackedMatrix::random(dtype, rows, cols, seed);
    EXPECT_TRUE(quantise_matrix(dtype, wide.data(), rows, cols, packed.bytes.data()));
    return packed;
  }
  // Results in f32 or bf16.
  template <class Out = float>
  std::vector<Out> run(Rig& rig) const {
    std::vector<ExpertWeights> experts;
    for (size_t g = 0; g < gates.size(); ++g) {
      experts.push_back({gates[g].view(), ups[g].view(), downs[g].view()});
    }
    std::vector<float> scratch(pair_row.size() * static_cast<size_t>(2 * width));
    QuantisedRows hidden(pair_row.size() * static_cast<size_t>(activation_row_bytes(width)));
    GroupedFfn call{.x_quantised = x.data(),
                    .experts = experts.data(),
                    .group_begin = group_begin.data(),
                    .pair_row = pair_row.data(),
                    .out_offset = out_offset.data(),
                    .hidden = scratch.data(),
                    .hidden_quantised = hidden.data(),
                    .weight_dtype = gates.front().dtype,
                    .num_pairs = static_cast<int64_t>(pair_row.size()),
                    .num_groups = static_cast<int32_t>(gates.size()),
                    .hidden_size = hidden_size,
                    .width = width};
    auto out = unwritten_results<Out>(call, pair_row.size() * static_cast<size_t>(hidden_size + 3));
    rig.ops->grouped_ffn(call, *rig.stream);
    return out;
  }
  std::vector<float> want() const {
    std::vector<float> out(pair_row.size() * static_cast<size_t>(hidden_size + 3), 7.0f);
    for (size_t g = 0; g < gates.size(); ++g) {
      for (int32_t p = group_begin[g]; p < group_begin[g + 1]; ++p) {
        std::vector<float> inner;
        for (int64_t i = 0; i < width; ++i) {
          const float gate = plain_qdot(x, pair_row[p], gates[g], i);
          const float up = plain_qdot(x, pair_row[p], ups[g], i);
          inner.push_back(gate / (1.0f + kernel_exp(-gate)) * up);
        }
        const QuantisedRows row = plain_quantise(inner.data(), 1, width, width);
        for (int64_t n = 0; n < hidden_size; ++n) {
          out[out_offset[p] + n] = plain_qdot(row, 0, downs[g], n);
        }
      }
    }
    return out;
  }
  int64_t hidden_size, width;
  std::vector<PackedMatrix> gates, ups, downs;
  QuantisedRows x;
  std::vector<int32_t> group_begin, pair_row;
  std::vector<int64_t> out_offset;
};

TEST(QuantisedGroupedFfnTest, IsThreeProductsSiluAndQuantiseRowsBitForBit) {
  for (const DType dtype : {DType::kQ8, DType::kQ4}) {
    for (const auto& [hidden, inner] :
         {std::pair<int64_t, int64_t>{32, 32}, {96, 64}, {64, 160}, {192, 128}}) {
      const Experts experts(dtype, hidden, inner, {1, 0, 3, 9, 2, 19});
      const std::vector<float> want = experts.want();
      for (const Isa isa : available_isas()) {
        Rig rig(isa);
        EXPECT_EQ(difference(experts.run(rig), want), "")
            << to_string(isa) << " " << to_string(dtype) << " H " << hidden << " I " << inner;
      }
    }
  }
}

TEST(QuantisedGroupedFfnTest, ResultsInBf16AreTheSumsRoundedOnce) {
  for (const DType dtype : {DType::kQ8, DType::kQ4}) {
    const Experts experts(dtype, 96, 64, {1, 0, 70});
    const std::vector<float> want = from_bf16(to_bf16(experts.want()));
    for (const Isa isa : available_isas()) {
      Rig rig(isa, 2);
      EXPECT_EQ(difference(from_bf16(experts.run<uint16_t>(rig)), want), "")
          << to_string(isa) << " " << to_string(dtype);
    }
  }
}

TEST(QuantisedGroupedFfnTest, ThreadsDoNotChangeABit) {
  for (const DType dtype : {DType::kQ8, DType::kQ4}) {
    const Experts experts(dtype, 608, 416, {2, 1, 0, 5});
    const std::vector<float> want = experts.want();
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 2, 3, 5}) {
        Rig rig(isa, threads);
        EXPECT_EQ(difference(experts.run(rig), want), "")
            << to_string(isa) << " " << to_string(dtype) << " threads " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace colibri
