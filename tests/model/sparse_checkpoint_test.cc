// Checkpoints with the released shapes of large models, as sparse files that take no disk: offsets
// past 4 GiB, element counts past 2^31, tens of thousands of tensors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "model/checkpoint.h"
#include "model/shapes.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/sparse_model.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// An expert with an own file offset, written into and read back.
void expect_bytes_come_back(const Checkpoint& checkpoint, const TensorKey& key,
                            uint64_t at_least_bytes) {
  const TensorRange range = checkpoint.range(key);
  EXPECT_GT(range.offset_bytes + range.size_bytes, at_least_bytes) << range.name;
  const auto path =
      checkpoint.path() / ("model-" + std::to_string(range.file_idx) + ".safetensors");
  std::string written(range.size_bytes, '\0');
  for (size_t i = 0; i < written.size(); ++i) written[i] = static_cast<char>(i * 31 + 7);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const ssize_t done =
      ::pwrite(fd, written.data(), written.size(), static_cast<off_t>(range.offset_bytes));
  ::close(fd);
  ASSERT_EQ(static_cast<size_t>(done), written.size());
  std::string read(range.size_bytes, '\0');
  checkpoint.read(range, read.data());
  EXPECT_TRUE(read == written) << range.name;
}

// The first expert whose file offset lies on the 4 GiB line of its shard or after it.
TensorKey expert_across(const Checkpoint& checkpoint, uint64_t line) {
  const ModelConfig& config = checkpoint.config();
  for (int layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (int expert = 0; expert < config.num_experts; ++expert) {
      for (const TensorRole role :
           {TensorRole::kExpertGate, TensorRole::kExpertUp, TensorRole::kExpertDown}) {
        const TensorRange range = checkpoint.range({role, layer, expert});
        if (range.offset_bytes < line && range.offset_bytes + range.size_bytes > line) {
          return {role, layer, expert};
        }
      }
    }
  }
  fail(ErrorKind::kInternal, "no expert lies across byte ", line);
}

TEST(SparseCheckpointTest, Qwen3235bOpensAndReadsAcrossTheFourGiBLine) {
  const TempDir dir;
  write_sparse(dir.path(), qwen3_235b_json(), false, 5 * kGiB);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint.summary().num_tensors, 3 + 94 * (9 + 3 * 128));
  EXPECT_EQ(checkpoint.summary().expert_bytes, uint64_t{94} * 128 * 3 * 1536 * 4096 * 2);
  EXPECT_EQ(checkpoint.config().hidden_size, named_shape("qwen3-235b-a22b")->hidden_size);
  expect_bytes_come_back(checkpoint, expert_across(checkpoint, 4 * kGiB), 4 * kGiB);
}

// Packed: gate_up_proj is [128, 3072, 4096], 1.6e9 elements, and an expert's part starts past 2
// GiB.
TEST(SparseCheckpointTest, PackedQwen3235bReadsTheLastExpertOfALayer) {
  const TempDir dir;
  write_sparse(dir.path(), qwen3_235b_json(), true, 20 * kGiB);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  expect_bytes_come_back(checkpoint, {TensorRole::kExpertUp, 2, 127}, 4 * kGiB);
  expect_bytes_come_back(checkpoint, {TensorRole::kExpertDown, 2, 127}, 4 * kGiB);
}

TEST(SparseCheckpointTest, DeepseekV3OpensInManyShards) {
  const TempDir dir;
  write_sparse(dir.path(), deepseek_v3_json(), false, 8 * kGiB);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_GT(checkpoint.summary().num_files, 100);
  EXPECT_EQ(checkpoint.summary().num_tensors, 3 + 61 * 9 + 3 * 3 + 58 * (5 + 3 * 256));
  expect_bytes_come_back(checkpoint, expert_across(checkpoint, 4 * kGiB), 4 * kGiB);
}

TEST(SparseCheckpointTest, Fp8DeepseekV3OpensWithAScaleForEveryBlock) {
  const TempDir dir;
  write_sparse_fp8(dir.path(), deepseek_v3_fp8_json(), 5 * kGiB);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  const int num_fp8 = 61 * 5 + 3 * 3 + 58 * (3 + 3 * 256);
  EXPECT_EQ(checkpoint.summary().num_tensors, 3 + 61 * 9 + 3 * 3 + 58 * (5 + 3 * 256) + num_fp8);
  const uint64_t expert_bytes = uint64_t{2048} * 7168 + 16 * 56 * 4;
  EXPECT_EQ(checkpoint.summary().expert_bytes, 58 * 256 * 3 * expert_bytes);
  const TensorRange kv_a = checkpoint.range({TensorRole::kLatentKvA, 60, -1});
  EXPECT_EQ(kv_a.scales.rows, 5);  // 576 rows: four blocks and a half
  EXPECT_EQ(kv_a.scales.cols, 56);
  expect_bytes_come_back(checkpoint, expert_across(checkpoint, 4 * kGiB), 4 * kGiB);
}

// gate_up_proj is [256, 4096, 7168]: 7.5e9 elements in one tensor, more than 2^32.
TEST(SparseCheckpointTest, PackedDeepseekV3HasElementCountsPast32Bits) {
  const TempDir dir;
  write_sparse(dir.path(), deepseek_v3_json(), true, 30 * kGiB);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  const TensorRange first = checkpoint.range({TensorRole::kExpertGate, 3, 0});
  const TensorRange last = checkpoint.range({TensorRole::kExpertUp, 3, 255});
  EXPECT_EQ(last.offset_bytes - first.offset_bytes, uint64_t{511} * 2048 * 7168 * 2);
  expect_bytes_come_back(checkpoint, {TensorRole::kExpertUp, 3, 255}, 14 * kGiB);
}

TEST(SparseCheckpointTest, ShardCutPastFourGiBIsTruncated) {
  const TempDir dir;
  write_sparse(dir.path(), qwen3_235b_json(), false, 5 * kGiB);
  const auto path = dir / "model-3.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput,
               "model-3.safetensors: header and tensors take");
}

}  // namespace
}  // namespace colibri
