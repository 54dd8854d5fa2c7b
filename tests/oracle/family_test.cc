// Tiny random checkpoints of every family, held against what transformers computed
// (make_fixtures.py).

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/npy_file.h"
#include "tests/support/run_model.h"

namespace colibri {
namespace {

const std::filesystem::path kModels = COLIBRI_SOURCE_DIR "/tests/data/models";

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// The largest difference to the oracle, over the largest oracle logit.
double relative_error(const std::vector<std::vector<float>>& rows, const NpyArray& want) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < want.rows; ++i) {
    for (size_t j = 0; j < want.cols; ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(want.row(i)[j])));
      const double difference =
          static_cast<double>(rows[i][j]) - static_cast<double>(want.row(i)[j]);
      error = std::isnan(difference) ? INFINITY : std::max(error, std::abs(difference));
    }
  }
  return error / largest;
}

void expect_equal(const std::string& model, const nlohmann::json& want, const NpyArray& logits) {
  ModelRun run;
  run.options.model = model;
  run.options.weights = "f32";
  run.prompts = {want.at("prompt_ids").get<std::vector<int32_t>>()};
  const auto greedy = want.at("greedy_ids").get<std::vector<int32_t>>();
  run.max_tokens = static_cast<int64_t>(greedy.size());
  run.score_prompt = true;
  const ModelOutput got = run_model(run);
  EXPECT_EQ(got.ids[0], greedy);
  ASSERT_EQ(got.logits.size(), logits.rows);
  ASSERT_EQ(got.logits[0].size(), logits.cols);
  EXPECT_LT(relative_error(got.logits, logits), 1e-4);
}

class FamilyTest : public testing::TestWithParam<std::string> {};

TEST_P(FamilyTest, GreedyIdsAndLogitsAreThoseOfTransformers) {
  const auto dir = kModels / GetParam();
  const auto want = read_json(dir / "expected.json");
  expect_equal(dir, want, read_npy(dir / want.at("logits_file").get<std::string>()));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyTest, testing::ValuesIn(fixture_names()),
                         [](const auto& fixture) { return fixture.param; });

TEST(DemoModelTest, GreedyIdsAndLogitsAreThoseOfTransformers) {
  const auto all = read_json(kModels / "demo.expected.json");
  const auto& romeo = all.at("prompts").at(0);
  expect_equal(COLIBRI_SOURCE_DIR "/configs/models/demo", romeo,
               read_npy(kModels / romeo.at("logits_file").get<std::string>()));
}

TEST(DemoModelTest, Bf16WeightsGiveTheSameIdsAsTheSameWeightsWidened) {
  const auto all = read_json(kModels / "demo.expected.json");
  for (const auto& want : all.at("prompts")) {
    ModelRun run;
    run.options.model = COLIBRI_SOURCE_DIR "/configs/models/demo";
    run.prompts = {want.at("prompt_ids").get<std::vector<int32_t>>()};
    const auto greedy = want.at("greedy_ids").get<std::vector<int32_t>>();
    run.max_tokens = static_cast<int64_t>(greedy.size());
    EXPECT_EQ(run_model(run).ids[0], greedy) << want.at("prompt");
  }
}

}  // namespace
}  // namespace colibri
