#include "launch/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "launch/local_ranks.h"
#include "launch/model_session.h"
#include "launch/scoring.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const std::string kDemo = COLIBRI_SOURCE_DIR "/configs/models/demo";

// A file of this content under these options.
PerplexityText read(const std::string& content, const CommonOptions& options = {}) {
  static const Checkpoint demo = Checkpoint::open(kDemo);
  const TempDir dir;
  write_file(dir / "t.txt", content);
  return read_perplexity_text((dir / "t.txt").string(), options, demo);
}

// Runs `use` with a scorer of the demo model.
void with_scorer(const std::function<void(Scorer&)>& use) {
  CommonOptions options;
  options.model = kDemo;
  options.threads = 1;
  run_local_ranks(options, 1, [&](RankContext& context) {
    ModelSession session(options, context,
                         [](const Checkpoint&) { return SessionNeeds{.max_context = 16}; });
    return session.run([&](Serving& serving) {
      Scorer scorer(serving.forward, serving.cache,
                    scorer_options(options, session.checkpoint().config(), 16));
      use(scorer);
      return 0;
    });
  });
}

TEST(PerplexityTest, TextIsEncodedWholeAndWindowsAreTheContextsLength) {
  CommonOptions options;
  EXPECT_EQ(read("ROMEO:", options).ids, (std::vector<int32_t>{49, 1038, 36, 46, 25}));
  EXPECT_EQ(read("ROMEO:", options).window, 2048);
  options.max_context = 100;
  EXPECT_EQ(read("ROMEO:", options).window, 100);
}

TEST(PerplexityTest, TextsAndWindowsOfLessThanTwoTokensAreRefused) {
  CommonOptions options;
  EXPECT_ERROR(read(""), kInput, "holds 0 tokens, want at least 2");
  EXPECT_ERROR(read("a"), kInput, "holds 1 tokens, want at least 2");
  options.max_context = 1;
  EXPECT_ERROR(read("ROMEO:", options), kInput, "--max-context is 1, want at least 2");
  options.max_context = 4096;
  EXPECT_ERROR(read("ROMEO:", options), kInput, "max_position_embeddings 2048");
}

TEST(PerplexityTest, EachWindowBeginsAnewAndItsFirstTokenIsNotScored) {
  const PerplexityText text{.ids = {49, 1038, 36, 46, 25, 11, 348, 537, 82}, .window = 4};
  with_scorer([&](Scorer& scorer) {
    double sum = 0;
    const auto add = [&](double log_p) { sum -= log_p; };
    scorer.score_text(std::vector<int32_t>{49, 1038, 36, 46}, add);
    scorer.score_text(std::vector<int32_t>{25, 11, 348, 537}, add);
    // The last window is one token, which is nothing to score.
    const Perplexity measured = measure_perplexity(scorer, text);
    EXPECT_EQ(measured.num_windows, 2);
    EXPECT_EQ(measured.num_tokens, 6);
    EXPECT_EQ(measured.mean_nll, sum / 6);
    EXPECT_EQ(measured.perplexity, std::exp(sum / 6));
    EXPECT_FALSE(measured.was_stopped);
  });
}

}  // namespace
}  // namespace colibri
