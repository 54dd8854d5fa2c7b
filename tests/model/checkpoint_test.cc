#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

ModelConfig tiny() { return parse_model_config(tiny_config_json(), "tiny"); }

using Tensors = std::vector<TestTensor>;

TestTensor& find(Tensors& tensors, const std::string& name) {
  const auto at = std::find_if(tensors.begin(), tensors.end(),
                               [&](const TestTensor& tensor) { return tensor.name == name; });
  if (at == tensors.end()) fail(ErrorKind::kInternal, "no test tensor ", name);
  return *at;
}

// Writes the tiny model after `change`.
void write_changed(const TempDir& dir, const std::function<void(Tensors&)>& change,
                   const std::string& config = tiny_config_json()) {
  Tensors tensors = test_tensors(tiny());
  change(tensors);
  write_file(dir / "config.json", config);
  write_file(dir / "model.safetensors", safetensors_image(tensors));
}

std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorKey& key) {
  const TensorRange range = checkpoint.range(key);
  std::vector<float> values(range.size_bytes / sizeof(float));
  checkpoint.read(range, values.data());
  return values;
}

constexpr const char* kExpertName = "model.layers.1.mlp.experts.2.up_proj.weight";

TEST(CheckpointTest, ReadsTheMatrixOfARole) {
  const TempDir dir;
  write_tiny_model(dir.path());
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  const TensorRange range = checkpoint.range({TensorRole::kExpertUp, 1, 2});
  EXPECT_EQ(range.name, kExpertName);
  EXPECT_EQ(range.rows, 4);
  EXPECT_EQ(range.cols, 8);
  EXPECT_EQ(range.dtype, DType::kF32);
  Tensors tensors = test_tensors(tiny());
  EXPECT_EQ(float_bytes(read_floats(checkpoint, {TensorRole::kExpertUp, 1, 2})),
            find(tensors, kExpertName).bytes);
}

// The three matrices of every expert, cut out of packed tensors made from the split ones.
TEST(CheckpointTest, SplitAndPackedExpertsReadAlike) {
  const TempDir split_dir, packed_dir;
  write_tiny_model(split_dir.path());
  Tensors split = test_tensors(tiny()), packed;
  for (const TestTensor& tensor : split) {
    if (tensor.name.find(".experts.") == std::string::npos) packed.push_back(tensor);
  }
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    TestTensor gate_up{block + "gate_up_proj", "F32", {3, 8, 8}, ""};
    TestTensor down{block + "down_proj", "F32", {3, 8, 4}, ""};
    for (int expert = 0; expert < 3; ++expert) {
      const std::string one = block + std::to_string(expert);
      gate_up.bytes += find(split, one + ".gate_proj.weight").bytes;
      gate_up.bytes += find(split, one + ".up_proj.weight").bytes;
      down.bytes += find(split, one + ".down_proj.weight").bytes;
    }
    packed.push_back(gate_up);
    packed.push_back(down);
  }
  write_file(packed_dir / "config.json", tiny_config_json());
  write_file(packed_dir / "model.safetensors", safetensors_image(packed));
  const Checkpoint a = Checkpoint::open(split_dir.path()), b = Checkpoint::open(packed_dir.path());
  for (int layer = 0; layer < 2; ++layer) {
    for (int expert = 0; expert < 3; ++expert) {
      for (const TensorRole role :
           {TensorRole::kExpertGate, TensorRole::kExpertUp, TensorRole::kExpertDown}) {
        EXPECT_EQ(read_floats(a, {role, layer, expert}), read_floats(b, {role, layer, expert}));
      }
    }
  }
  EXPECT_EQ(a.summary().expert_bytes, b.summary().expert_bytes);
}

TEST(CheckpointTest, MissingTensorIsNamedWithItsShapeAndNearNames) {
  const TempDir dir;
  write_changed(dir, [](Tensors& t) { find(t, kExpertName).name = "model.layers.1.mlp.x"; });
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput,
               std::string(kExpertName) + "\" is missing, want it with shape [4, 8] (expert up)");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput,
               "nearest names: model.layers.0.mlp.experts.2.up_proj.weight");
}

TEST(CheckpointTest, WrongShapeSaysBothShapes) {
  const TempDir dir;
  write_changed(dir, [](Tensors& t) { find(t, kExpertName).shape = {8, 4}; });
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "has shape [8, 4], want [4, 8]");
}

TEST(CheckpointTest, WrongRankIsAWrongShape) {
  const TempDir dir;
  write_changed(dir, [](Tensors& t) { find(t, "model.norm.weight").shape = {1, 8}; });
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "has shape [1, 8], want [8]");
}

TEST(CheckpointTest, SurplusTensorIsAnError) {
  const TempDir dir;
  write_changed(dir, [](Tensors& t) { t.push_back({"model.extra", "F32", {1}, "abcd"}); });
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput,
               "1 tensor is neither used by qwen3_moe as config.json describes it");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "\"model.extra\" [1] in ");
}

TEST(CheckpointTest, SurplusBiasNamesTheKeyThatDeniesIt) {
  const TempDir dir;
  write_changed(dir, [](Tensors& t) {
    t.push_back({"model.layers.0.self_attn.q_proj.bias", "F32", {8}, std::string(32, '\0')});
  });
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "attention_bias");
}

TEST(CheckpointTest, FewerLayersThanTensorsLeaveTheRestListed) {
  const TempDir dir;
  std::string config = tiny_config_json();
  config.replace(config.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": 1");
  write_changed(
      dir, [](Tensors&) {}, config);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint.summary().ignored.size(), 18u);  // 9 of the layer and 3 matrices, 3 experts
  EXPECT_FALSE(checkpoint.has({TensorRole::kQ, 1, -1}));
}

TEST(CheckpointTest, RotaryFrequenciesAreIgnoredByName) {
  const TempDir dir;
  write_changed(dir, [](Tensors& t) {
    t.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "abcd"});
  });
  const auto ignored = Checkpoint::open(dir.path()).summary().ignored;
  ASSERT_EQ(ignored.size(), 1u);
  EXPECT_EQ(ignored[0],
            "model.layers.0.self_attn.rotary_emb.inv_freq: rotary frequencies are computed");
}

std::string tied_config() {
  std::string config = tiny_config_json();
  return config.insert(config.rfind('}'), R"(, "tie_word_embeddings": true)");
}

TEST(CheckpointTest, TiedHeadWithEqualBytesIsIgnored) {
  const TempDir dir;
  write_changed(
      dir,
      [](Tensors& t) {
        find(t, "lm_head.weight").bytes = find(t, "model.embed_tokens.weight").bytes;
      },
      tied_config());
  EXPECT_EQ(Checkpoint::open(dir.path()).summary().ignored,
            std::vector<std::string>{"lm_head.weight: equal to the tied embedding"});
}

TEST(CheckpointTest, HeadOfATiedModelIsTheEmbedding) {
  const TempDir dir;
  write_changed(
      dir,
      [](Tensors& t) {
        std::erase_if(t, [](const auto& x) { return x.name == "lm_head.weight"; });
      },
      tied_config());
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  const TensorRange head = checkpoint.range({TensorRole::kLmHead, -1, -1});
  EXPECT_EQ(head.name, "model.embed_tokens.weight");
  EXPECT_EQ(head.offset_bytes, checkpoint.range({TensorRole::kEmbedding, -1, -1}).offset_bytes);
}

TEST(CheckpointTest, TiedHeadWithOtherBytesIsAnError) {
  const TempDir dir;
  write_changed(
      dir, [](Tensors&) {}, tied_config());
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "lm_head.weight differs from");
}

TEST(CheckpointTest, OtherElementTypesAreRefusedByName) {
  const TempDir dir;
  const auto retype = [&](const char* dtype, size_t bytes) {
    write_changed(dir, [&](Tensors& t) {
      find(t, kExpertName).dtype = dtype;
      find(t, kExpertName).bytes.resize(bytes);
    });
  };
  retype("F8_E5M2", 32);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kUnsupported,
               "is of type F8_E5M2: this type is not supported");
  retype("I32", 128);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kUnsupported, "is of type I32");
  retype("F16", 64);
  EXPECT_EQ(Checkpoint::open(dir.path()).range({TensorRole::kExpertUp, 1, 2}).dtype, DType::kF16);
}

TEST(CheckpointTest, QuantisedFormsAreRefusedWithTheReason) {
  const std::pair<const char*, const char*> forms[] = {
      {"qweight", "GPTQ and AWQ checkpoints are not supported"},
      {"qzeros", "GPTQ and AWQ checkpoints are not supported"},
      {"scales", "GPTQ and AWQ checkpoints are not supported"},
      {"g_idx", "GPTQ checkpoints are not supported"},
      {"weight_packed", "compressed-tensors checkpoints are not supported"},
      {"weight_scale", "and compressed-tensors, are not supported"},
      {"input_scale", "FP8 with fixed activation scales is not supported"}};
  for (const auto& [suffix, reason] : forms) {
    const TempDir dir;
    write_changed(dir, [name = suffix](Tensors& t) {
      find(t, kExpertName).name = std::string("model.layers.1.mlp.experts.2.up_proj.") + name;
    });
    EXPECT_ERROR(Checkpoint::open(dir.path()), kUnsupported, reason);
  }
}

TEST(CheckpointTest, TransposedPackedExpertsAreRefusedByName) {
  const TempDir dir;
  Tensors tensors = test_tensors(tiny(), true);
  find(tensors, "model.layers.0.mlp.experts.down_proj").shape = {3, 4, 8};
  write_file(dir / "config.json", tiny_config_json());
  write_file(dir / "model.safetensors", safetensors_image(tensors));
  EXPECT_ERROR(Checkpoint::open(dir.path()), kUnsupported,
               "has shape [3, 4, 8]: transposed packed experts are not supported, want [3, 8, 4]");
}

TEST(CheckpointTest, ConfigThatClaimsHugeSizesFailsOnTheFirstTensor) {
  const TempDir dir;
  std::string config = tiny_config_json();
  config.replace(config.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": 4096");
  config.replace(config.find("\"num_experts\": 3"), 16, "\"num_experts\": 16384");
  write_changed(
      dir, [](Tensors&) {}, config);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "has shape [3, 8], want [16384, 8]");
}

TEST(CheckpointTest, TruncatedFileIsNamed) {
  const TempDir dir;
  write_tiny_model(dir.path());
  const auto path = dir / "model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "it is truncated; download it again");
}

TEST(CheckpointTest, FingerprintChangesWithConfigurationAndLayoutOnly) {
  const TempDir a, b, c, d;
  write_tiny_model(a.path());
  write_tiny_model(b.path());
  std::string config = tiny_config_json();
  config.replace(config.find("_tok\": 2"), 8, "_tok\": 1");
  write_changed(
      c, [](Tensors&) {}, config);
  write_changed(d, [](Tensors& t) { std::swap(t[0], t[1]); });
  const std::string first = Checkpoint::open(a.path()).fingerprint();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first, Checkpoint::open(b.path()).fingerprint());
  EXPECT_NE(first, Checkpoint::open(c.path()).fingerprint());
  EXPECT_NE(first, Checkpoint::open(d.path()).fingerprint());
}

}  // namespace
}  // namespace colibri
