// What eight and four bits cost: perplexity of the demo model on a text it has not seen.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/quantised.h"
#include "coordinator/scorer.h"
#include "launch/local_ranks.h"
#include "launch/model_session.h"
#include "launch/perplexity.h"
#include "launch/scoring.h"
#include "tests/support/random_model.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const std::string kDemo = COLIBRI_SOURCE_DIR "/configs/models/demo";
const std::string kText = kDemo + "/heldout.txt";

// Over the whole text: of a few thousand tokens chance moves the figure more than the format does.
double perplexity(const std::string& model, const std::string& weights) {
  CommonOptions options;
  options.model = model;
  options.weights = weights;
  options.max_context = 128;  // as it was trained
  Perplexity measured;
  run_local_ranks(options, 1, [&](RankContext& context) {
    PerplexityText text;
    // The tokenizer is the demo's also where `model` is a changed copy of its weights.
    const auto prepare = [&](const Checkpoint&) {
      text = read_perplexity_text(kText, options, Checkpoint::open(kDemo));
      return SessionNeeds{.max_context = text.window};
    };
    return run_session(options, context, prepare, {}, [&](ModelSession& session, Serving& serving) {
      Scorer scorer(serving.forward, serving.cache,
                    scorer_options(options, session.checkpoint().config(), text.window));
      measured = measure_perplexity(scorer, text);
      return 0;
    });
  });
  return measured.perplexity;
}

// GGUF's Q4_0: the value of largest magnitude becomes -8, the scale is f16.
void round_to_q4_0(std::vector<float>& values) {
  for (size_t at = 0; at < values.size(); at += 32) {
    float extreme = 0;
    for (size_t i = 0; i < 32; ++i) {
      if (std::fabs(values[at + i]) > std::fabs(extreme)) extreme = values[at + i];
    }
    const float wide_scale = extreme / -8;
    const float inverse = wide_scale == 0 ? 0 : 1 / wide_scale;
    const float scale = f16_to_float(float_to_f16(wide_scale));
    for (size_t i = 0; i < 32; ++i) {
      const int code = std::min(15, static_cast<int>(values[at + i] * inverse + 8.5f)) - 8;
      values[at + i] = static_cast<float>(code) * scale;
    }
  }
}

TEST(QualityTest, EightBitExpertsAreWithinThreePerMilleOfBf16) {
  const double bf16 = perplexity(kDemo, "bf16");
  EXPECT_LT(std::abs(perplexity(kDemo, "q8") / bf16 - 1), 0.003) << bf16;
}

// Experts rounded plainly beforehand are encoded without a further error.
TEST(QualityTest, FourBitExpertsAreNoWorseThanPlainQ40Rounding) {
  const TempDir plain;
  write_changed_model(
      kDemo,
      [](const TensorKey& key, std::vector<float>& values) {
        if (key.expert >= 0) round_to_q4_0(values);
      },
      plain.path());
  const double searched = perplexity(kDemo, "q4");
  const double rounded = perplexity(plain.path(), "q4");
  EXPECT_LE(searched, rounded);
  RecordProperty("searched", std::to_string(searched));
  RecordProperty("plain", std::to_string(rounded));
}

}  // namespace
}  // namespace colibri
