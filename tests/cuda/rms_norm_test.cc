#include <gtest/gtest.h>

#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

std::string compare(int64_t rows, int64_t width) {
  CudaRig rig;
  const int64_t stride = width + 3;
  const auto x = random_floats(rows * stride, 1), weight = random_floats(width, 2);
  RmsNorm op{.x = x.data(),
             .weight = weight.data(),
             .num_rows = rows,
             .width = width,
             .x_stride = stride,
             .out_stride = width,
             .eps = 1e-6f};
  std::vector<float> want(static_cast<size_t>(rows * width));
  op.out = want.data();
  rig.cpu->rms_norm(op, *rig.cpu_stream);
  DeviceArray<float> device_x(rig, x), device_weight(rig, weight), out(rig, want.size());
  op.x = device_x.data();
  op.weight = device_weight.data();
  op.out = out.data();
  rig.cuda->rms_norm(op, *rig.stream);
  return difference(out.host(), want);
}

TEST(CudaRmsNorm, HasTheCpusBitsForEveryWidth) {
  for (const int64_t width : {1, 15, 16, 17, 31, 33, 64, 1000}) {
    EXPECT_EQ(compare(3, width), "") << "width " << width;
  }
}

TEST(CudaRmsNorm, HasTheCpusBitsForEveryNumberOfRows) {
  for (const int64_t rows : {0, 1, 4, 5, 13}) EXPECT_EQ(compare(rows, 48), "") << rows << " rows";
}

}  // namespace
}  // namespace colibri
