// FP8 weights with a scale for each block of 128 x 128, as released files hold them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/quantised.h"
#include "model/matrix_loads.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

constexpr char kOne = 0x38, kTwo = 0x40, kMinusOneAndAHalf = '\xbc', kNan = 0x7f;
constexpr float kInf = std::numeric_limits<float>::infinity();

// One layer, two experts of H 160 and I 135: a gate matrix has 2 x 2 blocks, three of them partial.
std::string config_json(const std::string& keys =
                            R"("quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
        "activation_scheme": "dynamic", "weight_block_size": [128, 128]})") {
  return R"({"model_type": "qwen3_moe", "vocab_size": 7000, "hidden_size": 160,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 135)" +
         (keys.empty() ? "" : ", " + keys) + "}";
}

using Tensors = std::vector<TestTensor>;
const std::string kGate = "model.layers.0.mlp.experts.1.gate_proj.weight";
const std::string kGateScale = kGate + "_scale_inv";
constexpr TensorKey kGateKey{TensorRole::kExpertGate, 0, 1};

TestTensor& find(Tensors& tensors, const std::string& name) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  fail(ErrorKind::kInternal, "no test tensor ", name);
}

// Makes a tensor of FP8 ones, and its scales.
void make_fp8(Tensors& tensors, const std::string& name, const std::vector<float>& scales) {
  TestTensor& weight = find(tensors, name);
  int64_t count = 1;
  for (const int64_t size : weight.shape) count *= size;
  weight.dtype = "F8_E4M3";
  weight.bytes.assign(static_cast<size_t>(count), kOne);
  std::vector<int64_t> blocks;
  for (const int64_t size : weight.shape) blocks.push_back((size + 127) / 128);
  tensors.push_back({name + "_scale_inv", "F32", blocks, float_bytes(scales)});
}

// The model with one FP8 matrix, after `change`.
Checkpoint open_changed(const TempDir& dir, const std::function<void(Tensors&)>& change,
                        const std::string& config = config_json()) {
  Tensors tensors = test_tensors(parse_model_config(config_json(""), "config"));
  make_fp8(tensors, kGate, {2, 3, 5, 7});
  change(tensors);
  write_file(dir / "config.json", config);
  write_file(dir / "model.safetensors", safetensors_image(tensors));
  return Checkpoint::open(dir.path());
}

void nothing(Tensors&) {}

std::vector<float> widened(const Checkpoint& checkpoint, const TensorKey& key) {
  return load_floats(checkpoint, key);
}

TEST(Fp8Test, AWeightIsItsValueTimesTheScaleOfItsBlock) {
  const TempDir dir;
  const Checkpoint checkpoint = open_changed(dir, [](Tensors& t) {
    std::string& bytes = find(t, kGate).bytes;
    bytes[127 * 160 + 128] = kTwo;
    bytes[134 * 160 + 159] = kMinusOneAndAHalf;
  });
  const std::vector<float> got = widened(checkpoint, kGateKey);
  const auto at = [&](size_t row, size_t col) { return got[row * 160 + col]; };
  EXPECT_EQ(at(0, 0), 2.0f);
  EXPECT_EQ(at(127, 127), 2.0f);
  EXPECT_EQ(at(0, 128), 3.0f);
  EXPECT_EQ(at(127, 128), 6.0f);
  EXPECT_EQ(at(128, 127), 5.0f);
  EXPECT_EQ(at(128, 128), 7.0f);
  EXPECT_EQ(at(134, 159), -10.5f);
}

// A last block of seven columns.
TEST(Fp8Test, NarrowLastBlockHasItsScale) {
  const TempDir dir;
  const std::string down = "model.layers.0.mlp.experts.1.down_proj.weight";
  const Checkpoint checkpoint = open_changed(dir, [&](Tensors& t) {
    make_fp8(t, down, {2, 3, 5, 7});
  });
  const std::vector<float> got = widened(checkpoint, {TensorRole::kExpertDown, 0, 1});
  for (size_t col = 0; col < 135; ++col) {
    EXPECT_EQ(got[col], col < 128 ? 2.0f : 3.0f) << col;
    EXPECT_EQ(got[159 * 135 + col], col < 128 ? 5.0f : 7.0f) << col;
  }
}

TEST(Fp8Test, ScalesMayBeBf16) {
  const TempDir dir;
  const Checkpoint checkpoint = open_changed(dir, [](Tensors& t) {
    TestTensor& scales = find(t, kGateScale);
    scales.dtype = "BF16";
    scales.bytes = std::string("\x00\x40\x40\x40\xa0\x40\xe0\x40", 8);  // 2, 3, 5, 7
  });
  const std::vector<float> got = widened(checkpoint, kGateKey);
  EXPECT_EQ(got.front(), 2.0f);
  EXPECT_EQ(got.back(), 7.0f);
}

TEST(Fp8Test, AsStoredIsBf16RoundedToEven) {
  const TempDir dir;
  const Checkpoint checkpoint = open_changed(dir, [](Tensors& t) {
    find(t, kGateScale).bytes = float_bytes({0x1.03p0f, 1, 1, 1});  // between 0x1.02 and 0x1.04
  });
  ThreadPool pool({.num_threads = 1});
  const OwnedMatrix gate = load_matrix(checkpoint, kGateKey, WeightFormats{}, pool);
  ASSERT_EQ(gate.view.dtype, DType::kBF16);
  EXPECT_EQ(bf16_to_float(gate.memory.as<uint16_t>()[0]), 0x1.04p0f);
}

// 7000 rows are read in pieces, of which each must find its own rows of scales.
TEST(Fp8Test, LongMatrixHasTheScalesOfEachOfItsRows) {
  const TempDir dir;
  std::vector<float> scales;
  for (int i = 0; i < 55; ++i) scales.insert(scales.end(), {1.0f + static_cast<float>(i), 100.0f});
  const Checkpoint checkpoint =
      open_changed(dir, [&](Tensors& t) { make_fp8(t, "lm_head.weight", scales); });
  const std::vector<float> got = widened(checkpoint, {TensorRole::kLmHead, -1, -1});
  for (size_t row = 0; row < 7000; ++row) {
    ASSERT_EQ(got[row * 160], 1.0f + static_cast<float>(row / 128)) << row;
    ASSERT_EQ(got[row * 160 + 159], 100.0f) << row;
  }
}

TEST(Fp8Test, QuantisedAtLoadAreTheBytesOfTheWidenedWeights) {
  const TempDir dir;
  std::vector<float> scales(110);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
  const Checkpoint checkpoint = open_changed(dir, [&](Tensors& t) {
    make_fp8(t, "lm_head.weight", scales);
    std::string& bytes = find(t, "lm_head.weight").bytes;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i % 127);
  });
  const TensorKey key{TensorRole::kLmHead, -1, -1};
  const std::vector<float> wide = widened(checkpoint, key);
  for (const DType dtype : {DType::kQ8, DType::kQ4}) {
    const auto bytes = static_cast<size_t>(matrix_bytes(dtype, 7000, 160));
    std::string want(bytes, '\0'), got(bytes, '\1');
    ASSERT_TRUE(quantise_matrix(dtype, wide.data(), 7000, 160, want.data()));
    Buffer scratch;
    load_range(checkpoint, checkpoint.range(key), dtype, got.data(), scratch);
    EXPECT_TRUE(got == want) << to_string(dtype);
  }
}

TEST(Fp8Test, SummaryCountsScales) {
  const TempDir dir, plain_dir;
  const CheckpointSummary got = open_changed(dir, nothing).summary();
  Tensors plain = test_tensors(parse_model_config(config_json(""), "config"));
  write_file(plain_dir / "config.json", config_json(""));
  write_file(plain_dir / "model.safetensors", safetensors_image(plain));
  const CheckpointSummary want = Checkpoint::open(plain_dir.path()).summary();
  const uint64_t saved = 135 * 160 * 3 - 4 * 4;  // bytes instead of f32s, and four scales
  EXPECT_EQ(got.total_bytes, want.total_bytes - saved);
  EXPECT_EQ(got.expert_bytes, want.expert_bytes - saved);
  EXPECT_EQ(got.num_tensors, want.num_tensors + 1);
  EXPECT_EQ(got.dtypes, (std::vector<std::string>{"f32", "f8_e4m3"}));
}

TEST(Fp8Test, LayersAfterTheLastAreIgnoredWithTheirScales) {
  const TempDir dir;
  const Checkpoint checkpoint = open_changed(dir, [](Tensors& t) {
    t.push_back({"model.layers.1.eh_proj.weight", "F8_E4M3", {1, 4}, "abcd"});
    t.push_back({"model.layers.1.eh_proj.weight_scale_inv", "F32", {1, 1}, "abcd"});
  });
  EXPECT_EQ(checkpoint.summary().ignored.size(), 2u);
}

TEST(Fp8Test, MissingScaleIsNamedWithItsShape) {
  const TempDir dir;
  EXPECT_ERROR(open_changed(dir, [](Tensors& t) { t.pop_back(); }), kInput,
               kGateScale + "\" is missing, want it with shape [2, 2] (one scale a block");
}

TEST(Fp8Test, MisshapenScaleSaysBothShapes) {
  const TempDir dir;
  const auto reshape = [](std::vector<int64_t> shape) {
    return [shape](Tensors& t) { find(t, kGateScale).shape = shape; };
  };
  EXPECT_ERROR(open_changed(dir, reshape({1, 4})), kInput,
               kGateScale + "\" has shape [1, 4], want [2, 2]");
  EXPECT_ERROR(open_changed(dir, reshape({4})), kInput, "has shape [4], want [2, 2]");
}

TEST(Fp8Test, ScalesOfOtherTypesAreRefused) {
  const TempDir dir;
  EXPECT_ERROR(open_changed(dir,
                            [](Tensors& t) {
                              find(t, kGateScale).dtype = "F8_E8M0";
                              find(t, kGateScale).bytes = "abcd";
                            }),
               kUnsupported, kGateScale + "\" is of type F8_E8M0: scales of FP8 weights are read");
}

TEST(Fp8Test, ScaleWithoutAnFp8WeightIsSurplus) {
  const TempDir dir;
  const auto add = [](Tensors& t) {
    t.push_back({"model.layers.0.mlp.experts.0.up_proj.weight_scale_inv", "F32", {1, 1}, "abcd"});
  };
  EXPECT_ERROR(open_changed(dir, add), kInput, "it scales no FP8 weight in use");
}

TEST(Fp8Test, OnlyProjectionsExpertsAndHeadMayBeFp8) {
  const std::pair<const char*, std::vector<float>> tensors[] = {
      {"model.norm.weight", {1, 1}},  // [160]: two blocks
      {"model.layers.0.mlp.gate.weight", {1, 1}},
      {"model.layers.0.self_attn.q_norm.weight", {1}},
      {"model.embed_tokens.weight", std::vector<float>(110)}};
  for (const auto& [name, scales] : tensors) {
    const TempDir dir;
    EXPECT_ERROR(open_changed(dir, [&](Tensors& t) { make_fp8(t, name, scales); }), kUnsupported,
                 std::string(name) + "\" (");
  }
}

TEST(Fp8Test, WeightsAndConfigurationMustAgree) {
  const TempDir dir;
  EXPECT_ERROR(open_changed(dir, nothing, config_json("")), kInput,
               kGate + "\" is of type F8_E4M3, but config.json has no quantization_config");
  const auto widen = [](Tensors& t) {
    find(t, kGate) = {kGate, "F32", {135, 160}, std::string(135 * 160 * 4, '\0')};
    t.pop_back();
  };
  EXPECT_ERROR(open_changed(dir, widen), kInput, "no tensor in use is of type F8_E4M3");
}

TEST(Fp8Test, PackedExpertsAreRefused) {
  const TempDir dir;
  Tensors tensors = test_tensors(parse_model_config(config_json(""), "config"), true);
  TestTensor& down = find(tensors, "model.layers.0.mlp.experts.down_proj");
  down.dtype = "F8_E4M3";
  down.bytes.resize(down.bytes.size() / 4);
  write_file(dir / "config.json", config_json());
  write_file(dir / "model.safetensors", safetensors_image(tensors));
  EXPECT_ERROR(Checkpoint::open(dir.path()), kUnsupported,
               "experts.down_proj\" is of type F8_E4M3: FP8 in packed experts is not supported");
}

TEST(Fp8Test, WhatIsNotFiniteIsNamedAtLoad) {
  for (const float scale : {std::nanf(""), kInf, -kInf}) {
    const TempDir dir;
    const Checkpoint checkpoint = open_changed(dir, [&](Tensors& t) {
      find(t, kGateScale).bytes = float_bytes({1, 1, 1, scale});
    });
    EXPECT_ERROR(widened(checkpoint, kGateKey), kInput, kGate + "\" has a block scale");
  }
}

TEST(Fp8Test, ValuesThatAreNoNumbersAreNamedAtLoad) {
  const TempDir dir, large_dir;
  const Checkpoint with_nan =
      open_changed(dir, [](Tensors& t) { find(t, kGate).bytes.back() = kNan; });
  ThreadPool pool({.num_threads = 1});
  EXPECT_ERROR(load_matrix(with_nan, kGateKey, WeightFormats{}, pool), kInput,
               kGate + "\" holds an FP8 value that is not a number");
  const Checkpoint too_large = open_changed(large_dir, [](Tensors& t) {
    find(t, kGate).bytes.back() = kTwo;
    find(t, kGateScale).bytes = float_bytes({1, 1, 1, 3e38f});
  });
  EXPECT_ERROR(widened(too_large, kGateKey), kInput, "too large when scaled");
}

}  // namespace
}  // namespace colibri
