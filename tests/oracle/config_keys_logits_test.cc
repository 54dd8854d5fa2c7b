// Every key of the transformers configuration classes again, this time through the whole forward
// pass: what opens must give transformers' logits.

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/support/model_files.h"
#include "tests/support/run_model.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

std::vector<float> last_logits(const std::filesystem::path& dir, const std::vector<int>& prompt) {
  ModelRun run;
  run.options.model = dir;
  run.options.weights = "f32";
  run.prompts = {{prompt.begin(), prompt.end()}};
  run.max_tokens = 1;
  return run_model(run).logits.at(0);
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return INFINITY;
  double largest = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, std::abs(difference));
  }
  return error / largest;
}

// True when it was opened and compared.
bool check_case(const ConfigKeyCase& entry, const std::filesystem::path& dir) {
  const bool has_logits = entry.outcome == "same" || entry.outcome == "different";
  if (!has_logits) return false;
  write_config_key_case(entry, dir);
  std::vector<float> got;
  try {
    got = last_logits(dir, entry.prompt_ids);
  } catch (const Error&) {
    return false;  // that refusals name the key is ConfigKeysTest's fact
  }
  EXPECT_LT(relative_error(got, entry.outcome == "same" ? entry.base_logits : entry.logits), 1e-4)
      << entry.describe;
  return true;
}

class ConfigKeysLogitsTest : public testing::TestWithParam<const char*> {};

TEST_P(ConfigKeysLogitsTest, WhatOpensGivesTransformersLogits) {
  const TempDir dir;
  int num_compared = 0;
  for (const ConfigKeyCase& entry : config_key_cases(GetParam())) {
    num_compared += check_case(entry, dir.path()) ? 1 : 0;
  }
  EXPECT_GT(num_compared, 40);
}

INSTANTIATE_TEST_SUITE_P(Families, ConfigKeysLogitsTest,
                         testing::Values("qwen3_moe", "mixtral", "olmoe", "deepseek_v3", "glm4_moe",
                                         "qwen2_moe"),
                         [](const auto& fixture) { return std::string(fixture.param); });

}  // namespace
}  // namespace colibri
