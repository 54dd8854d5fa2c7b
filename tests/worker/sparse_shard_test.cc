// Shards of models far larger than this machine: `inspect` tells their sizes, and a rank of eight
// reads its own experts of the first expert layer and nothing else.

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "launch/inspect.h"
#include "tests/support/model_files.h"
#include "tests/support/sparse_model.h"
#include "tests/support/temp_dir.h"
#include "topology/placement.h"
#include "worker/expert_shard.h"

namespace colibri {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr int kNumRanks = 8;

std::string inspected(const std::filesystem::path& dir) {
  RunConfig config;
  config.verb = Verb::kInspect;
  config.common.model = dir;
  config.inspect.for_ranks = kNumRanks;
  testing::internal::CaptureStdout();
  inspect(config);
  return testing::internal::GetCapturedStdout();
}

// The same files with fewer layers: tensors of the layers beyond are left out by name.
void keep_layers(const std::filesystem::path& dir, const std::string& released, int num_layers) {
  auto config = nlohmann::json::parse(released);
  config["num_hidden_layers"] = num_layers;
  write_file(dir / "config.json", config.dump());
}

void expect_rank_loads_its_share(const std::filesystem::path& dir, int rank) {
  const Checkpoint checkpoint = Checkpoint::open(dir);
  const ModelShape shape = model_shape(checkpoint.config(), {}, DType::kF32);
  const Placement placement = contiguous_placement(shape, {.num_ranks = kNumRanks});
  ThreadPool pool({.num_threads = 2});
  const auto ops = make_cpu_ops(best_isa());
  const auto device = make_cpu_device(pool);
  const auto stream = device->make_stream();
  uint64_t loaded = 0;
  ShardOptions options{.rank = rank, .max_pairs = 1};
  options.on_bytes = [&](uint64_t bytes) { loaded += bytes; };
  const ExpertShard shard(checkpoint, placement, options,
                          {device.get(), stream.get(), ops.get(), &pool});
  EXPECT_EQ(shard.num_resident(), placement.num_slots(rank));
  EXPECT_GT(shard.num_resident(), 15);
  EXPECT_EQ(loaded, static_cast<uint64_t>(shard.num_resident() * shape.expert_bytes));
  EXPECT_EQ(shard.resident_bytes(), static_cast<int64_t>(loaded));
}

TEST(SparseShardTest, RanksOfQwen3235bReadTheirOwnExpertsOnly) {
  const TempDir dir;
  write_sparse(dir.path(), qwen3_235b_json(), false, 20 * kGiB);
  const std::string text = inspected(dir.path());
  EXPECT_NE(text.find("128 a layer"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 7"), std::string::npos) << text;
  keep_layers(dir.path(), qwen3_235b_json(), 1);
  for (const int rank : {1, 7}) expect_rank_loads_its_share(dir.path(), rank);
}

TEST(SparseShardTest, RankOfDeepseekV3ReadsItsOwnExpertsOnly) {
  const TempDir dir;
  write_sparse(dir.path(), deepseek_v3_json(), false, 30 * kGiB);
  const std::string text = inspected(dir.path());
  EXPECT_NE(text.find("256 a layer"), std::string::npos) << text;
  keep_layers(dir.path(), deepseek_v3_json(), 4);
  if (std::getenv("FULL_TESTS") == nullptr) {
    GTEST_SKIP() << "3 GB of experts are read only by ./launch/test.sh --full; inspect has passed";
  }
  expect_rank_loads_its_share(dir.path(), 7);
}

}  // namespace
}  // namespace colibri
