// Every key of the transformers configuration classes, one by one: the changed checkpoint either is
// refused by name, or its configuration changes exactly when transformers' logits change.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/checkpoint.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

// What the forward pass reads: without the fields that only sampling, limits and loading use.
ModelConfig forward_part(ModelConfig config) {
  config.eos_ids.clear();
  config.bos_id = -1;
  config.max_positions = 0;
  config.checkpoint_dtype = DType::kBF16;
  return config;
}

// transformers 5.24 reads head_dim null and fails; with the default it means what older releases
// did.
bool is_yarn_without_head_dim(const ConfigKeyCase& entry) {
  return entry.model_type == "mixtral" && entry.outcome == "error" &&
         entry.describe.find("yarn") != std::string::npos;
}

// A refusal must let the user find the key: by its name, or by the tensors it asks for.
bool names_the_key(const ConfigKeyCase& entry, const std::string& message) {
  const bool is_about_tensors = message.find("tensor") != std::string::npos;
  return message.find(entry.key) != std::string::npos || is_about_tensors ||
         entry.outcome == "error";
}

struct Counts {
  int same = 0, different = 0, refused = 0;
};

void check_opened(const ConfigKeyCase& entry, const ModelConfig& base, const ModelConfig& got,
                  Counts& counts) {
  const bool is_equal = forward_part(got) == forward_part(base);
  if (entry.outcome == "same") {
    EXPECT_TRUE(is_equal) << entry.describe << ": has no effect in transformers";
    ++counts.same;
  } else if (entry.outcome == "different") {
    EXPECT_FALSE(is_equal) << entry.describe << ": changes the logits in transformers";
    ++counts.different;
  } else {
    EXPECT_TRUE(entry.is_interface || is_yarn_without_head_dim(entry))
        << entry.describe << ": transformers says " << entry.outcome << ", here it opens";
  }
  if (entry.eos_ids != std::vector<int>{-1}) {
    EXPECT_EQ(got.eos_ids, std::vector<int32_t>(entry.eos_ids.begin(), entry.eos_ids.end()))
        << entry.describe;
  }
}

void check_case(const ConfigKeyCase& entry, const std::filesystem::path& dir,
                const ModelConfig& base, Counts& counts) {
  write_config_key_case(entry, dir);
  try {
    check_opened(entry, base, Checkpoint::open(dir).config(), counts);
  } catch (const Error& error) {
    ++counts.refused;
    EXPECT_TRUE(error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kUnsupported)
        << entry.describe << ": " << error.what();
    EXPECT_TRUE(names_the_key(entry, error.what())) << entry.describe << ": " << error.what();
  }
}

class ConfigKeysTest : public testing::TestWithParam<const char*> {};

TEST_P(ConfigKeysTest, EveryKeyHasTransformersEffectOrIsRefusedByName) {
  const std::vector<ConfigKeyCase> cases = config_key_cases(GetParam());
  ASSERT_GT(cases.size(), 50u);
  const ModelConfig base = Checkpoint::open(cases[0].base_dir).config();
  const TempDir dir;
  Counts counts;
  for (const ConfigKeyCase& entry : cases) check_case(entry, dir.path(), base, counts);
  EXPECT_GT(counts.same, 10);
  EXPECT_GT(counts.different, 5);
  EXPECT_GT(counts.refused, 20);
}

INSTANTIATE_TEST_SUITE_P(Families, ConfigKeysTest,
                         testing::Values("qwen3_moe", "mixtral", "olmoe", "deepseek_v3", "glm4_moe",
                                         "qwen2_moe"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace
}  // namespace colibri
