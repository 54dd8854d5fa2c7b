#include "kernels/cuda/dense.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/cuda/dense_rig.h"

namespace colibri {
namespace {

TEST(DenseProducts, GiveARowTheSameBitsForEveryNumberOfRows) {
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16});
  const auto want = rig.each_row_alone(300);
  for (int64_t rows = 1; rows <= 300; ++rows) {
    ASSERT_EQ(difference(rig.multiply(rows), first_rows(want, rows, 24)), "") << rows << " rows";
  }
}

TEST(DenseProducts, GiveF32RowsTheSameBitsForEveryNumberOfRows) {
  DenseRig rig({.n = 20, .k = 36, .dtype = DType::kF32});
  const auto want = rig.each_row_alone(130);
  for (const int64_t rows : {2, 3, 7, 31, 64, 100, 128, 129, 130}) {
    EXPECT_EQ(difference(rig.multiply(rows), first_rows(want, rows, 20)), "") << rows << " rows";
  }
}

TEST(DenseProducts, MultiplyAsTheCpuDoesButForTheOrderOfTheSum) {
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16});
  const auto got = rig.multiply(9), want = rig.on_the_cpu(9);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5f) << i;
}

TEST(DenseProducts, AddTheBiasWhereverARowLies) {
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16});
  const auto plain = rig.multiply(131);
  rig.use_bias();
  const auto biased = rig.multiply(131);
  for (size_t i = 0; i < plain.size(); ++i) {
    ASSERT_EQ(biased[i], plain[i] + rig.bias()[i % 24]) << i;
  }
}

TEST(DenseProducts, GiveTheSameBitsToRowsWithGaps) {
  DenseRig rig({.n = 20, .k = 36, .dtype = DType::kF32});
  const auto want = rig.multiply(131);
  rig.use_gaps(5, 3);
  EXPECT_EQ(difference(rig.multiply(131), want), "");
}

TEST(DenseProducts, LeaveTheGapsAndTheRowsAfterTheLastAlone) {
  DenseRig rig({.n = 20, .k = 36, .dtype = DType::kF32});
  rig.use_gaps(0, 3);
  rig.multiply(5);
  for (const float value : rig.untouched()) ASSERT_EQ(value, DenseRig::kMark);
}

TEST(DenseProducts, GiveTheSameBitsWhenReplayed) {
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16});
  for (const int64_t rows : {1, 7, 131}) {
    EXPECT_EQ(difference(rig.multiply_replayed(rows), rig.multiply(rows)), "") << rows << " rows";
  }
}

TEST(DenseProducts, AreTakenForPreparedShapesAlone) {
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16});
  MatMul op = rig.op(3);
  EXPECT_TRUE(rig.dense().takes(op));
  op.num_tokens = 1000;
  EXPECT_TRUE(rig.dense().takes(op));
  op.weight.rows = 23;
  EXPECT_FALSE(rig.dense().takes(op));
  op = rig.op(3);
  op.weight.dtype = DType::kF32;
  EXPECT_FALSE(rig.dense().takes(op));
}

TEST(DenseProducts, MultiplyForTheOpsTheyAreGivenTo) {
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16});
  const auto want = rig.multiply(7);
  const auto ops = make_cuda_ops({.dense = {std::shared_ptr<void>(), &rig.dense()}});
  EXPECT_EQ(difference(rig.multiply_with(*ops, 7), want), "");
}

TEST(DenseProducts, ChooseTheFastestAndReportWhatFreeChoiceWouldGive) {
  int calls = 0;
  DenseOptions options;
  options.time_us = [&](const std::function<void()>&, Stream&) { return 10.0 + ++calls % 3; };
  DenseRig rig({.n = 24, .k = 72, .dtype = DType::kBF16}, options);
  const DenseReport& report = rig.dense().reports().front();
  ASSERT_TRUE(report.fits);
  ASSERT_EQ(report.choices.size(), options.buckets.size());
  EXPECT_GE(report.cost(), 1.0);
  for (const DenseChoice& one : report.choices) {
    EXPECT_GE(one.num_bit_equal, 1) << one.bucket;
    EXPECT_GE(one.time_us, one.free_time_us) << one.bucket;
  }
}

TEST(DenseProducts, HaveTheSameBitsWhateverTheTimes) {
  const DenseShape shape{.n = 24, .k = 72, .dtype = DType::kBF16};
  std::vector<std::vector<float>> results;
  for (const double sign : {1.0, -1.0}) {
    DenseOptions options;
    int calls = 0;
    options.time_us = [&](const std::function<void()>&, Stream&) { return 100 + sign * ++calls; };
    DenseRig rig(shape, options);
    results.push_back(rig.multiply(37));
  }
  EXPECT_EQ(difference(results[0], results[1]), "");
}

TEST(DenseProducts, RefuseAShapeThatIsEmpty) {
  CudaRig rig;
  const DenseShape shape{.n = 0, .k = 8};
  EXPECT_THROW(make_dense_products(*rig.device, {&shape, 1}, {}), Error);
}

// Buckets 1 2 4 8 serve five rows: the probe has a weight of 12 * 8 and eight rows of 8 and 12, the
// copies eight rows.
TEST(DenseProducts, SayWhatTheyTakeBeforeTheyDo) {
  const DenseShape shape{.n = 12, .k = 8, .dtype = DType::kBF16, .max_tokens = 5};
  const DenseOptions options{
      .buckets = {1, 2, 4, 8, 16}, .workspace_bytes = 1 << 16, .time_us = {}, .measures = false};
  const DenseMemory memory = dense_memory({&shape, 1}, options);
  EXPECT_EQ(memory.probe_bytes, 12 * 8 * 2 + 8 * 8 * 2 + 8 * 12 * 4);
  EXPECT_EQ(memory.kept_bytes, (1 << 16) + 8 * 8 * 2 + 8 * 12 * 4);
  CudaRig rig;
  const int64_t before = rig.device->allocated_bytes();
  const auto dense = make_dense_products(*rig.device, {&shape, 1}, options);
  ASSERT_TRUE(dense->reports().front().fits);
  EXPECT_EQ(rig.device->allocated_bytes() - before, memory.kept_bytes);
}

}  // namespace
}  // namespace colibri
