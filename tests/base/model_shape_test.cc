#include "base/model_shape.h"

#include <gtest/gtest.h>

#include "base/tensor_view.h"

namespace colibri {
namespace {

TEST(ModelShapeTest, CountsItsMoeLayers) {
  ModelShape shape;
  EXPECT_EQ(shape.num_moe_layers(), 0);
  shape.layer_is_moe = {false, true, true, false};
  EXPECT_EQ(shape.num_moe_layers(), 2);
}

TEST(MatrixViewTest, SliceOfRowsSharesTheMemory) {
  const uint16_t values[6] = {};
  const MatrixView matrix{values, DType::kBF16, 3, 2};
  EXPECT_EQ(matrix.size_bytes(), 12);
  const MatrixView slice = matrix.slice_rows(1, 2);
  EXPECT_EQ(slice.data, values + 2);
  EXPECT_EQ(slice.rows, 2);
  EXPECT_EQ(slice.cols, 2);
  EXPECT_FALSE(slice.empty());
  EXPECT_TRUE(MatrixView{}.empty());
}

}  // namespace
}  // namespace colibri
