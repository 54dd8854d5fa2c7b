// Runs with bf16, q8 and q4 weights, held against runs that need not be trusted twice: products
// written plainly from their definition, and f32 arithmetic on the decoded weights.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_ops.h"
#include "tests/support/run_model.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
const std::string kFixtures = COLIBRI_SOURCE_DIR "/tests/data/models/";
const std::string kDemo = COLIBRI_SOURCE_DIR "/configs/models/demo";
const std::string kFp8 = kFixtures + "deepseek_v3_fp8";

// What a run is asked to keep its weights as.
struct Form {
  std::string weights, dense_weights;
};

std::string name_of(const Form& form) { return form.weights + ", dense " + form.dense_weights; }

constexpr int kPromptLength = 70;  // more than a tile

// Ids below 96, which every model here has; spread without a short period.
std::vector<int32_t> prompt_of(int length) {
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back((i * i * 7 + i * 3 + 5) % 96);
  return ids;
}

ModelRun run_of(const std::string& model, const Form& form) {
  ModelRun run;
  run.options.model = model;
  run.options.weights = form.weights;
  run.options.dense_weights = form.dense_weights;
  run.options.ranks = 1;
  run.prompts = {prompt_of(kPromptLength)};
  run.max_tokens = 8;
  run.score_prompt = true;
  return run;
}

using Logits = std::vector<std::vector<float>>;

bool bits_equal(const Logits& a, const Logits& b) {
  if (a.size() != b.size()) return false;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t id = 0; id < a[row].size(); ++id) {
      if (std::bit_cast<uint32_t>(a[row][id]) != std::bit_cast<uint32_t>(b[row][id])) return false;
    }
  }
  return true;
}

// Sums of squares of a row's differences and of its wanted values.
struct RowSums {
  double error = 0, size = 0;
};

RowSums sums_of(const std::vector<float>& got, const std::vector<float>& want) {
  RowSums sums;
  for (size_t id = 0; id < want.size(); ++id) {
    const double difference = double{got[id]} - double{want[id]};
    sums.error += difference * difference;
    sums.size += double{want[id]} * double{want[id]};
  }
  return sums;
}

// Roots of the mean square of the differences over that of the wanted logits.
struct RelativeRms {
  double overall = 0;  // of all positions together
  double median = 0;   // of the positions' own
};

RelativeRms relative_rms(const Logits& got, const Logits& want, size_t num_rows) {
  RowSums all;
  std::vector<double> rows;
  for (size_t row = 0; row < num_rows; ++row) {
    const RowSums sums = sums_of(got[row], want[row]);
    rows.push_back(std::sqrt(sums.error / sums.size));
    all.error += sums.error;
    all.size += sums.size;
  }
  std::nth_element(rows.begin(), rows.begin() + static_cast<int>(num_rows / 2), rows.end());
  return {std::sqrt(all.error / all.size), rows[num_rows / 2]};
}

const Form kQuantisedForms[] = {{"q8", "auto"}, {"q4", "auto"}, {"q8", "q8"}, {"q4", "q4"}};

// ---- exact: products written plainly

class ExactTest : public testing::TestWithParam<std::string> {};

TEST_P(ExactTest, IdsAndLogitsAreThoseOfProductsWrittenPlainly) {
  for (const Form& form : kQuantisedForms) {
    ModelRun run = run_of(GetParam(), form);
    run.hooks.make_ops = [](Isa) { return make_reference_ops(); };
    const ModelOutput want = run_model(run);
    run.hooks.make_ops = make_cpu_ops;
    for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
      if (!isa_is_available(isa)) continue;
      run.options.isa = to_string(isa);
      const ModelOutput got = run_model(run);
      EXPECT_EQ(got.ids, want.ids) << name_of(form) << ", " << to_string(isa);
      EXPECT_TRUE(bits_equal(got.logits, want.logits)) << name_of(form) << ", " << to_string(isa);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ExactTest, testing::Values(kDemo, kFp8), [](const auto& model) {
  return fs::path(model.param).filename().string();
});

// ---- f32 arithmetic on the decoded weights

ModelOutput run_decoded(const std::string& model, const Form& form) {
  const TempDir dir;
  write_decoded_model(model, parse_weight_formats(form.weights, form.dense_weights), dir.path());
  return run_model(run_of(dir.path(), {"f32", "auto"}));
}

std::vector<std::string> all_models() {
  std::vector<std::string> models{kDemo};
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    if (entry.is_directory()) models.push_back(entry.path());
  }
  return models;
}

// bf16 is widened exactly and multiplied as f32 is.
TEST(Bf16Test, LogitsHaveTheBitsOfF32OnTheDecodedWeights) {
  const Form bf16{"bf16", "auto"};
  for (const std::string& model : all_models()) {
    const ModelOutput got = run_model(run_of(model, bf16));
    const ModelOutput want = run_decoded(model, bf16);
    EXPECT_EQ(got.ids, want.ids) << model;
    EXPECT_TRUE(bits_equal(got.logits, want.logits)) << model;
  }
}

struct Family {
  const char* name;
  const char* keys;
};

// Two layers of each family, every width a multiple of 32.
const Family kFamilies[] = {
    {"qwen3_moe", R"("head_dim": 32, "num_experts": 7, "num_experts_per_tok": 3,
      "moe_intermediate_size": 96, "norm_topk_prob": true)"},
    {"mixtral", R"("num_local_experts": 5, "num_experts_per_tok": 2)"},
    {"olmoe", R"("num_experts": 7, "num_experts_per_tok": 3, "num_key_value_heads": 4)"},
    {"deepseek_v3", R"("num_key_value_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 32,
      "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 8,
      "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1,
      "moe_intermediate_size": 96)"},
    {"glm4_moe", R"("head_dim": 32, "n_routed_experts": 7, "num_experts_per_tok": 3,
      "first_k_dense_replace": 1, "moe_intermediate_size": 96, "use_qk_norm": true,
      "attention_bias": true)"},
    {"qwen2_moe", R"("num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 96,
      "shared_expert_intermediate_size": 160)"}};

std::string config_of(const Family& family) {
  const std::string keys = family.keys;
  const std::string kv_heads =
      keys.find("num_key_value_heads") == std::string::npos ? R"("num_key_value_heads": 2, )" : "";
  return std::string(R"({"model_type": ")") + family.name +
         R"(", "vocab_size": 96, "hidden_size": 128, "intermediate_size": 224, )" + kv_heads +
         R"("num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 256, )" +
         keys + "}";
}

// What was measured, and half as much again: the positions' median is the rounding of activations
// to int8; over all positions together stand those whose experts changed with it.
RelativeRms bounds_of(const Form& form) {
  const bool dense_too = form.dense_weights != "auto";
  return dense_too ? RelativeRms{.overall = 0.25, .median = 0.05}
                   : RelativeRms{.overall = 0.07, .median = 0.02};
}

bool is_within(const RelativeRms& rms, const RelativeRms& bounds) {
  return rms.overall < bounds.overall && rms.median < bounds.median;
}

void expect_close(const std::string& model, const Form& form) {
  const ModelOutput got = run_model(run_of(model, form));
  const ModelOutput want = run_decoded(model, form);
  const RelativeRms rms = relative_rms(got.logits, want.logits, kPromptLength);
  EXPECT_TRUE(is_within(rms, bounds_of(form)))
      << model << ", " << name_of(form) << ": " << rms.overall << ", median " << rms.median;
  EXPECT_GT(rms.median, 0) << "activations are rounded, so bits differ";
}

class RmsTest : public testing::TestWithParam<Family> {};

TEST_P(RmsTest, LogitsAreNearF32OnTheDecodedWeights) {
  const TempDir dir;
  write_random_model(dir.path(), config_of(GetParam()), 3);
  for (const Form& form : kQuantisedForms) expect_close(dir.path(), form);
}

INSTANTIATE_TEST_SUITE_P(Families, RmsTest, testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.name); });

TEST(RmsTest, DemoAndFp8ModelsAreNearF32OnTheDecodedWeights) {
  for (const Form& form : kQuantisedForms) {
    expect_close(kDemo, form);
    expect_close(kFp8, form);
  }
}

// The bounds tell q4 from q8 and bf16.
TEST(RmsTest, WeightsOfAnotherFormAreOutOfBounds) {
  const ModelOutput got = run_model(run_of(kFp8, {"q4", "auto"}));
  for (const char* other : {"q8", "bf16"}) {
    const ModelOutput want = run_decoded(kFp8, {other, "auto"});
    const RelativeRms rms = relative_rms(got.logits, want.logits, kPromptLength);
    EXPECT_FALSE(is_within(rms, bounds_of({"q4", "auto"}))) << other << ": " << rms.median;
  }
}

// ---- damage

// A copy of the FP8 model with four bytes of its weights replaced.
class DamagedModel {
 public:
  DamagedModel(const std::function<uint64_t(const Checkpoint&)>& offset_in, float value) {
    fs::copy(kFp8, path());
    std::string bytes = read_file(dir_ / "model/model.safetensors");
    const std::string damage = float_bytes({value});
    bytes.replace(offset_in(Checkpoint::open(path())), damage.size(), damage);
    write_file(dir_ / "model/model.safetensors", bytes);
  }
  std::string path() const { return dir_ / "model"; }

 private:
  TempDir dir_;
};

constexpr TensorKey kDamagedExpert{TensorRole::kExpertDown, 1, 0};

uint64_t scale_offset(const Checkpoint& checkpoint) {
  return checkpoint.range(kDamagedExpert).scales.offset_bytes;
}
uint64_t router_bias_offset(const Checkpoint& checkpoint) {
  return checkpoint.range({TensorRole::kRouterBias, 1, -1}).offset_bytes;
}

const Form kDamageForms[] = {{"f32", "auto"}, {"bf16", "auto"}, {"q8", "auto"}, {"q4", "q4"}};

TEST(DamageTest, OneFp8ScaleChangesLogits) {
  const DamagedModel damaged(scale_offset, 0.01f);
  for (const Form& form : kDamageForms) {
    EXPECT_FALSE(bits_equal(run_model(run_of(damaged.path(), form)).logits,
                            run_model(run_of(kFp8, form)).logits))
        << name_of(form);
  }
}

TEST(DamageTest, Fp8ScaleThatIsNoNumberIsNamed) {
  const DamagedModel damaged(scale_offset, std::nanf(""));
  for (const Form& form : kDamageForms) {
    EXPECT_ERROR(run_model(run_of(damaged.path(), form)), kInput,
                 "\"model.layers.1.mlp.experts.0.down_proj.weight\" has a block scale");
  }
}

TEST(DamageTest, OneRouterBiasChangesLogits) {
  const DamagedModel damaged(router_bias_offset, -3.0f);  // this expert is no longer chosen
  for (const Form& form : kDamageForms) {
    EXPECT_FALSE(bits_equal(run_model(run_of(damaged.path(), form)).logits,
                            run_model(run_of(kFp8, form)).logits))
        << name_of(form);
  }
}

TEST(DamageTest, RouterBiasThatIsNoNumberIsAnError) {
  const DamagedModel damaged(router_bias_offset, std::nanf(""));
  EXPECT_ERROR(run_model(run_of(damaged.path(), {"q8", "auto"})), kInput, "layer 1");
}

// A .colibri file whose first scale of an expert's matrix is replaced.
ModelOutput run_with_packed_scale(const Form& form, uint16_t scale) {
  const TempDir dir;
  const fs::path path = dir / "model.colibri";
  write_container(kFp8, parse_weight_formats(form.weights, form.dense_weights), path);
  std::string bytes = read_file(path);
  const uint64_t at = Checkpoint::open(path).range(kDamagedExpert).offset_bytes;
  bytes[at] = static_cast<char>(scale & 0xff);
  bytes[at + 1] = static_cast<char>(scale >> 8);
  write_file(path, bytes);
  return run_model(run_of(path, {"auto", "auto"}));
}

TEST(DamageTest, OnePackedScaleChangesLogits) {
  for (const Form& form : {Form{"q8", "auto"}, Form{"q4", "auto"}}) {
    const Logits whole = run_model(run_of(kFp8, form)).logits;
    EXPECT_FALSE(bits_equal(run_with_packed_scale(form, 0x3c00).logits, whole)) << name_of(form);
  }
}

TEST(DamageTest, PackedScaleThatIsNoNumberIsAnError) {
  EXPECT_ERROR(run_with_packed_scale({"q8", "auto"}, 0x7e00), kInput, "finite");
}

}  // namespace
}  // namespace colibri
