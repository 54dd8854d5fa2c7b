#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

std::vector<float> frequencies(int64_t half_dim) {
  std::vector<float> inv_freq;
  for (int64_t i = 0; i < half_dim; ++i) {
    inv_freq.push_back(std::pow(1e6f, -static_cast<float>(i) / static_cast<float>(half_dim)));
  }
  return inv_freq;
}

std::string compare_angles(const std::vector<int32_t>& positions, int64_t half_dim) {
  CudaRig rig;
  const auto inv_freq = frequencies(half_dim);
  const size_t count = positions.size() * static_cast<size_t>(half_dim);
  std::vector<float> cos(count), sin(count);
  RopeAngles op{.positions = positions.data(),
                .inv_freq = inv_freq.data(),
                .cos = cos.data(),
                .sin = sin.data(),
                .num_tokens = static_cast<int64_t>(positions.size()),
                .half_dim = half_dim,
                .scale = 1.17f};
  rig.cpu->rope_angles(op, *rig.cpu_stream);
  DeviceArray<int32_t> device_positions(rig, positions);
  DeviceArray<float> device_freq(rig, inv_freq), device_cos(rig, count), device_sin(rig, count);
  op.positions = device_positions.data();
  op.inv_freq = device_freq.data();
  op.cos = device_cos.data();
  op.sin = device_sin.data();
  rig.cuda->rope_angles(op, *rig.stream);
  return difference(device_cos.host(), cos) + difference(device_sin.host(), sin);
}

TEST(CudaRopeAngles, HasTheCpusBitsFromTheFirstToTheMillionthPosition) {
  for (const int64_t half_dim : {1, 32, 37, 150}) {
    EXPECT_EQ(compare_angles({0, 1, 2, 3, 4, 5, 100, 4095, 131071, 1048575}, half_dim), "");
  }
  EXPECT_EQ(compare_angles({}, 8), "");
}

struct RopeCase {
  int64_t tokens, heads, half_dim, head_stride, stride;
  bool interleaved;
};

std::string compare_rope(const RopeCase& c) {
  CudaRig rig;
  const auto x = random_floats(c.tokens * c.stride, 1);
  const auto cos = random_floats(c.tokens * c.half_dim, 2);
  const auto sin = random_floats(c.tokens * c.half_dim, 3);
  std::vector<float> want = x;
  Rope op{.x = want.data(),
          .cos = cos.data(),
          .sin = sin.data(),
          .num_tokens = c.tokens,
          .num_heads = c.heads,
          .half_dim = c.half_dim,
          .stride = c.stride,
          .head_stride = c.head_stride,
          .interleaved = c.interleaved};
  rig.cpu->rope(op, *rig.cpu_stream);
  DeviceArray<float> device_x(rig, x), device_cos(rig, cos), device_sin(rig, sin);
  op.x = device_x.data();
  op.cos = device_cos.data();
  op.sin = device_sin.data();
  rig.cuda->rope(op, *rig.stream);
  return difference(device_x.host(), want);
}

TEST(CudaRope, HasTheCpusBitsForBothPairings) {
  for (const bool interleaved : {false, true}) {
    EXPECT_EQ(compare_rope({3, 5, 32, 64, 400, interleaved}), "");
    EXPECT_EQ(compare_rope({2, 3, 7, 19, 61, interleaved}), "");
    EXPECT_EQ(compare_rope({1, 1, 1, 2, 2, interleaved}), "");
    EXPECT_EQ(compare_rope({0, 4, 8, 16, 64, interleaved}), "");
  }
}

}  // namespace
}  // namespace colibri
