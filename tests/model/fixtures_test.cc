// Every committed checkpoint opens, and each tensor of each role has the shape its family wants.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/checkpoint.h"
#include "model/tensor_names.h"
#include "tests/support/model_files.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> fixture_dirs() {
  std::vector<std::string> dirs{
      (fs::path(COLIBRI_SOURCE_DIR) / "configs" / "models" / "demo").string()};
  for (const auto& entry :
       fs::directory_iterator(fs::path(COLIBRI_SOURCE_DIR) / "tests" / "data" / "models")) {
    if (entry.is_directory()) dirs.push_back(entry.path().string());
  }
  std::sort(dirs.begin(), dirs.end());
  return dirs;
}

class FixturesTest : public testing::TestWithParam<std::string> {};

void expect_shape(const Checkpoint& checkpoint, const TensorKey& key) {
  ASSERT_TRUE(checkpoint.has(key)) << to_string(key.role) << " of layer " << key.layer;
  const TensorRange range = checkpoint.range(key);
  const WantedShape wanted = wanted_shape(checkpoint.config(), key.role);
  EXPECT_EQ(range.rows, wanted.rows) << range.name;
  EXPECT_EQ(range.cols, wanted.cols) << range.name;
  EXPECT_EQ(range.size_bytes,
            static_cast<uint64_t>(wanted.rows * wanted.cols) * size_of(range.dtype))
      << range.name;
}

TEST_P(FixturesTest, EveryRoleHasItsShape) {
  const Checkpoint checkpoint = Checkpoint::open(GetParam());
  const ModelConfig& config = checkpoint.config();
  for (const TensorRole role : global_roles(config)) expect_shape(checkpoint, {role, -1, -1});
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const TensorRole role : layer_roles(config, layer)) {
      expect_shape(checkpoint, {role, layer, -1});
    }
    if (!config.layer_is_moe[static_cast<size_t>(layer)]) continue;
    for (int expert = 0; expert < config.num_experts; ++expert) {
      for (const TensorRole role : kExpertRoles) expect_shape(checkpoint, {role, layer, expert});
    }
  }
}

// Reads all and reads nothing past the end: the last bytes of the last tensor included.
TEST_P(FixturesTest, EveryExpertCanBeRead) {
  const Checkpoint checkpoint = Checkpoint::open(GetParam());
  const ModelConfig& config = checkpoint.config();
  std::string bytes;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (int expert = 0; expert < config.num_experts; ++expert) {
      for (const TensorRole role : kExpertRoles) {
        if (!checkpoint.has({role, layer, expert})) continue;
        const TensorRange range = checkpoint.range({role, layer, expert});
        bytes.resize(range.size_bytes);
        checkpoint.read(range, bytes.data());
      }
    }
  }
  EXPECT_FALSE(bytes.empty());
}

INSTANTIATE_TEST_SUITE_P(All, FixturesTest, testing::ValuesIn(fixture_dirs()),
                         [](const auto& param_info) {
                           return fs::path(param_info.param).filename().string();
                         });

}  // namespace
}  // namespace colibri
