#include "kernels/cuda/packing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct Case {
  DType dtype;
  int64_t rows, cols;
};
const Case kCases[] = {{DType::kQ8, 16, 32}, {DType::kQ8, 40, 96},  {DType::kQ4, 16, 32},
                       {DType::kQ4, 33, 64}, {DType::kQ4, 48, 160}, {DType::kQ4, 0, 64}};

std::vector<unsigned char> quantised(const Case& c) {
  std::vector<unsigned char> packed(static_cast<size_t>(matrix_bytes(c.dtype, c.rows, c.cols)));
  const auto wide = random_floats(c.rows * c.cols, 7);
  EXPECT_TRUE(quantise_matrix(c.dtype, wide.data(), c.rows, c.cols, packed.data()));
  return packed;
}

// The code of an output and input as the header's comment says where it lies.
int code_of(const Case& c, const unsigned char* codes, int64_t row, int64_t k) {
  const int64_t group = k / 32, q = k % 32 / 8, lane = row % 8 * 4 + q;
  if (c.dtype == DType::kQ8) {
    const int64_t i = row / 8 + 2 * (k % 8 / 4);
    return static_cast<int8_t>(codes[group * 512 + 16 * lane + 4 * i + k % 4]);
  }
  const bool is_alone = group == c.cols / 32 - 1 && group % 2 == 0;
  const int64_t at =
      is_alone ? group * 256 + 8 * lane : group / 2 * 512 + 16 * lane + 8 * (group % 2);
  const int nibble = codes[at + 4 * (row / 8) + k % 4] >> (k % 8 / 4 * 4) & 15;
  return nibble < 8 ? nibble : nibble - 16;
}

float value_of(const Case& c, const std::vector<unsigned char>& matrix, int64_t row, int64_t k) {
  const unsigned char* panel = matrix.data() + row / 16 * panel_bytes(c.dtype, c.cols);
  uint16_t scale;
  std::memcpy(&scale, panel + (k / 32 * 16 + row % 16) * 2, sizeof scale);
  const int code = code_of(c, panel + panel_scale_bytes(c.cols), row % 16, k);
  return static_cast<float>(code) * f16_to_float(scale);
}

TEST(CudaPacking, EveryWeightLiesWhereTheHeaderSays) {
  for (const Case& c : kCases) {
    const auto packed = quantised(c);
    std::vector<float> want(static_cast<size_t>(c.rows * c.cols)), got;
    decode_matrix(c.dtype, packed.data(), c.rows, c.cols, want.data());
    std::vector<unsigned char> cuda(packed.size());
    pack_for_cuda(c.dtype, packed.data(), c.rows, c.cols, cuda.data());
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int64_t k = 0; k < c.cols; ++k) got.push_back(value_of(c, cuda, row, k));
    }
    EXPECT_EQ(difference(got, want), "") << c.rows << " x " << c.cols;
  }
}

TEST(CudaPacking, TheWayBackGivesTheSameBytes) {
  for (const Case& c : kCases) {
    const auto packed = quantised(c);
    std::vector<unsigned char> cuda(packed.size()), back(packed.size());
    pack_for_cuda(c.dtype, packed.data(), c.rows, c.cols, cuda.data());
    unpack_from_cuda(c.dtype, cuda.data(), c.rows, c.cols, back.data());
    EXPECT_EQ(back, packed) << c.rows << " x " << c.cols;
  }
}

TEST(CudaPacking, PanelsCanBePackedInPlaceAndOneByOne) {
  for (const Case& c : kCases) {
    auto packed = quantised(c);
    std::vector<unsigned char> cuda(packed.size());
    pack_for_cuda(c.dtype, packed.data(), c.rows, c.cols, cuda.data());
    for (int64_t row = 0; row < c.rows; row += 16) {
      unsigned char* panel = packed.data() + matrix_bytes(c.dtype, row, c.cols);
      pack_for_cuda(c.dtype, panel, std::min<int64_t>(16, c.rows - row), c.cols, panel);
    }
    EXPECT_EQ(packed, cuda) << c.rows << " x " << c.cols;
  }
}

}  // namespace
}  // namespace colibri
