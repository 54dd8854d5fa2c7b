// Eight and four bits, FP8 sources and .colibri files as real processes: the same ids on every
// number of ranks.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/multi/program.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const std::string kFp8 = COLIBRI_SOURCE_DIR "/tests/data/models/deepseek_v3_fp8";

std::string ids_of(const Words& model, const Words& more = {}) {
  const Words command = joined({kProgram, "generate"}, model);
  const CommandResult result =
      run_command(joined(joined(command, {"--prompt-ids", "5,17,42,8", "--greedy", "--ignore-eos",
                                          "--max-tokens", "24", "--ids"}),
                         more),
                  60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

void expect_equal_on_ranks(const Words& model) {
  const std::string alone = ids_of(model);
  EXPECT_EQ(std::count(alone.begin(), alone.end(), ','), 23) << alone;
  for (const char* ranks : {"2", "3", "5"}) {
    EXPECT_EQ(ids_of(model, {"--ranks", ranks}), alone) << ranks << " ranks";
  }
  EXPECT_EQ(ids_of(model, {"--ranks", "3", "--placement", "random:7", "--coordinator-experts", "2",
                           "--isa", "portable"}),
            alone);
}

TEST(FormatsTest, EightBitsOnEveryNumberOfRanks) {
  expect_equal_on_ranks({"--model", kDemo, "--weights", "q8", "--dense-weights", "q8"});
}

TEST(FormatsTest, FourBitsOnEveryNumberOfRanks) {
  expect_equal_on_ranks({"--model", kDemo, "--weights", "q4"});
}

TEST(FormatsTest, Fp8SourceOnEveryNumberOfRanks) {
  expect_equal_on_ranks({"--model", kFp8});
  expect_equal_on_ranks({"--model", kFp8, "--weights", "q4"});
}

TEST(FormatsTest, OneFileGivesTheIdsOfItsDirectoryOnEveryNumberOfRanks) {
  const TempDir dir;
  const std::string file = (dir / "m.colibri").string();
  const CommandResult converted =
      run_command({kProgram, "convert", kFp8, "--out", file, "--weights", "q8"}, 60);
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_EQ(ids_of({"--model", file}), ids_of({"--model", kFp8, "--weights", "q8"}));
  expect_equal_on_ranks({"--model", file});
}

}  // namespace
}  // namespace colibri
