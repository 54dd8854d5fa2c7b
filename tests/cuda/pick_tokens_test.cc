#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct Picked {
  std::vector<int32_t> cpu, cuda;
};

Picked pick(const std::vector<float>& logits, int64_t rows, int64_t vocabulary, int64_t stride) {
  CudaRig rig;
  PickTokens op{
      .logits = logits.data(), .num_rows = rows, .vocabulary = vocabulary, .stride = stride};
  Picked picked;
  picked.cpu.resize(static_cast<size_t>(rows));
  op.ids = picked.cpu.data();
  rig.cpu->pick_tokens(op, *rig.cpu_stream);
  DeviceArray<float> device_logits(rig, logits);
  DeviceArray<int32_t> ids(rig, picked.cpu.size());
  op.logits = device_logits.data();
  op.ids = ids.data();
  rig.cuda->pick_tokens(op, *rig.stream);
  picked.cuda = ids.host();
  return picked;
}

TEST(CudaPickTokens, PicksTheCpusTokenForEveryVocabulary) {
  for (const int64_t vocabulary : {1, 2, 31, 33, 2048, 2049, 20000}) {
    for (const int64_t stride : {vocabulary, vocabulary + 3}) {
      const Picked picked = pick(random_floats(3 * stride, 1), 3, vocabulary, stride);
      EXPECT_EQ(picked.cuda, picked.cpu) << vocabulary;
    }
  }
  EXPECT_TRUE(pick({}, 0, 8, 8).cuda.empty());
}

TEST(CudaPickTokens, TakesTheLowerIdAmongEquals) {
  std::vector<float> logits(3000, -1.0f);
  logits[2999] = logits[1777] = logits[641] = 2.0f;
  EXPECT_EQ(pick(logits, 1, 3000, 3000).cuda[0], 641);
}

TEST(CudaPickTokens, AcceptsRowsOfNegativeNumbersOnly) {
  std::vector<float> logits(100, -1e30f);
  logits[63] = -1e29f;
  EXPECT_EQ(pick(logits, 1, 100, 100).cuda[0], 63);
}

TEST(CudaPickTokens, MarksRowsThatAreNotFinite) {
  std::vector<float> logits = random_floats(4 * 700, 2);
  logits[5] = std::numeric_limits<float>::quiet_NaN();
  logits[2 * 700 + 699] = std::numeric_limits<float>::infinity();
  logits[3 * 700] = -std::numeric_limits<float>::infinity();
  const Picked picked = pick(logits, 4, 700, 700);
  EXPECT_EQ(picked.cuda, picked.cpu);
  EXPECT_EQ(picked.cuda[0], -1);
  EXPECT_GE(picked.cuda[1], 0);
  EXPECT_EQ(picked.cuda[2], -1);
  EXPECT_EQ(picked.cuda[3], -1);
}

}  // namespace
}  // namespace colibri
