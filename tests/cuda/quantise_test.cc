#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/quantised.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct Shape {
  int64_t rows, width, padding;
};

// "" when rows of quantised values are equal, any NaN as a scale equal to any other.
std::string difference(const std::vector<unsigned char>& got,
                       const std::vector<unsigned char>& want, int64_t width) {
  const auto row_bytes = static_cast<size_t>(activation_row_bytes(width));
  for (size_t i = 0; i < want.size(); i += 4) {
    float a, b;
    std::memcpy(&a, got.data() + i, 4);
    std::memcpy(&b, want.data() + i, 4);
    const bool is_scale = i % row_bytes >= static_cast<size_t>(width);
    if (std::memcmp(&a, &b, 4) == 0 || (is_scale && std::isnan(a) && std::isnan(b))) continue;
    return "byte " + std::to_string(i) + " differs";
  }
  return got.size() == want.size() ? "" : "sizes differ";
}

void expect_equal_quantised(const std::vector<float>& x, const Shape& shape) {
  CudaRig rig;
  QuantiseRows op{.x = x.data(),
                  .num_rows = shape.rows,
                  .width = shape.width,
                  .x_stride = shape.width + shape.padding};
  const auto row_bytes = static_cast<size_t>(activation_row_bytes(shape.width));
  std::vector<unsigned char> want(static_cast<size_t>(shape.rows) * row_bytes);
  op.out = want.data();
  rig.cpu->quantise_rows(op, *rig.cpu_stream);
  DeviceArray<float> device_x(rig, x);
  DeviceArray<unsigned char> out(rig, want.size());
  op.x = device_x.data();
  op.out = out.data();
  rig.cuda->quantise_rows(op, *rig.stream);
  EXPECT_EQ(difference(out.host(), want, shape.width), "") << "width " << shape.width;
}

std::vector<float> rows_of(const Shape& shape, uint32_t seed) {
  return random_floats(shape.rows * (shape.width + shape.padding), seed);
}

TEST(CudaQuantise, HasTheCpusBytesForEveryWidth) {
  for (const int64_t width : {32, 64, 96, 480, 512, 544, 1056}) {
    const Shape shape{3, width, 0};
    expect_equal_quantised(rows_of(shape, 1), shape);
  }
}

TEST(CudaQuantise, HasTheCpusBytesForRowsThatAreNotAligned) {
  const Shape shape{5, 64, 3};
  expect_equal_quantised(rows_of(shape, 2), shape);
}

TEST(CudaQuantise, HasTheCpusBytesForNoRows) { expect_equal_quantised({}, {0, 64, 0}); }

TEST(CudaQuantise, GroupsOfZerosAndOfNumbersThatAreNotFiniteAreTheCpus) {
  const Shape shape{1, 6 * 32, 0};
  std::vector<float> x = rows_of(shape, 3);
  for (size_t i = 0; i < 32; ++i) x[i] *= 0x1p-101f;
  for (size_t i = 32; i < 64; ++i) x[i] = -0.0f;
  x[70] = std::numeric_limits<float>::infinity();
  x[127] = std::nanf("");
  x[128] = std::numeric_limits<float>::max();
  expect_equal_quantised(x, shape);
}

TEST(CudaQuantise, TiesGoToTheEvenCode) {
  const Shape shape{1, 32, 0};
  std::vector<float> x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i) - 15.5f;
  x[0] = 127.0f;
  expect_equal_quantised(x, shape);
}

void expect_equal_rounded(const Shape& shape) {
  CudaRig rig;
  std::vector<float> x = rows_of(shape, 4);
  if (!x.empty()) x[0] = std::nanf("");
  RoundRows op{.x = x.data(),
               .num_rows = shape.rows,
               .width = shape.width,
               .x_stride = shape.width + shape.padding};
  std::vector<uint16_t> want(static_cast<size_t>(shape.rows * shape.width));
  op.out = want.data();
  rig.cpu->round_rows(op, *rig.cpu_stream);
  DeviceArray<float> device_x(rig, x);
  DeviceArray<uint16_t> out(rig, want.size());
  op.x = device_x.data();
  op.out = out.data();
  rig.cuda->round_rows(op, *rig.stream);
  EXPECT_EQ(out.host(), want) << "width " << shape.width;
}

TEST(CudaRoundRows, HasTheCpusBitsForEveryWidth) {
  for (const int64_t width : {1, 4, 63, 64, 512, 516, 1030}) expect_equal_rounded({3, width, 0});
}

TEST(CudaRoundRows, HasTheCpusBitsForRowsThatAreNotAligned) { expect_equal_rounded({5, 64, 1}); }

TEST(CudaRoundRows, HasTheCpusBitsForNoRows) { expect_equal_rounded({0, 64, 0}); }

}  // namespace
}  // namespace colibri
