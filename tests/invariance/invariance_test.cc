// Promise 1 bit for bit: placement, ranks, threads, chunks, mates, instruction sets and the way
// rows travel change speed, never a bit of the logits.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/dtype.h"
#include "kernels/ops.h"
#include "tests/support/model_files.h"
#include "tests/support/run_model.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

constexpr int64_t kWholePrompt = 512;

struct Point {
  int ranks = 1, threads = 1;
  int64_t chunk = kWholePrompt;
  std::string placement = "contiguous";
  bool with_mates = false, self_exchange = false;
  std::string isa = "auto";
};

std::string name_of(const Point& p) {
  return std::to_string(p.ranks) + " ranks, " + std::to_string(p.threads) + " threads, chunk " +
         std::to_string(p.chunk) + ", " + p.placement + (p.with_mates ? ", with mates" : "") +
         (p.self_exchange ? ", self-exchange" : "") + ", " + p.isa;
}

std::vector<int32_t> prompt_of(int length, int64_t vocab, int step) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * i * 7 + i * static_cast<size_t>(step)) %
                                  static_cast<size_t>(vocab));
  }
  return ids;
}

struct Subject {
  std::string model;
  int64_t vocab = 0;
  int prompt_length = 0;
  int64_t max_tokens = 0;
};

std::vector<std::vector<float>> logits_at(const Subject& subject, const Point& point) {
  ModelRun run;
  run.options.model = subject.model;
  run.options.ranks = point.ranks;
  run.options.threads = point.threads;
  run.options.chunk = point.chunk;
  run.options.placement = point.placement;
  run.options.self_exchange = point.self_exchange;
  run.options.isa = point.isa;
  run.prompts = {prompt_of(subject.prompt_length, subject.vocab, 3)};
  if (point.with_mates) {
    for (const int length : {1, 5, 40}) run.prompts.push_back(prompt_of(length, subject.vocab, 11));
  }
  run.max_tokens = subject.max_tokens;
  run.score_prompt = true;
  return run_model(run).logits;
}

// Names the first row and token that differ: empty when all bits are equal.
std::string first_difference(const std::vector<std::vector<float>>& a,
                             const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return "numbers of rows differ";
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t id = 0; id < a[row].size(); ++id) {
      if (std::bit_cast<uint32_t>(a[row][id]) != std::bit_cast<uint32_t>(b[row][id])) {
        return "row " + std::to_string(row) + ", token " + std::to_string(id) + ": " +
               std::to_string(a[row][id]) + " and " + std::to_string(b[row][id]);
      }
    }
  }
  return "";
}

void expect_invariant(const Subject& subject, const std::vector<Point>& points) {
  const auto reference = logits_at(subject, Point{});
  ASSERT_EQ(reference.size(), static_cast<size_t>(subject.prompt_length - 1 + subject.max_tokens));
  for (const Point& point : points) {
    ASSERT_EQ(first_difference(reference, logits_at(subject, point)), "") << name_of(point);
  }
}

std::vector<Point> whole_product() {
  std::vector<Point> points;
  for (const int ranks : {1, 2, 3, 5, 7}) {
    for (const int threads : {1, 3}) {
      for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, kWholePrompt}) {
        for (const char* placement : {"contiguous", "round-robin", "random:5"}) {
          for (const bool mates : {false, true}) {
            points.push_back({ranks, threads, chunk, placement, mates});
          }
        }
      }
    }
  }
  return points;
}

// Every instruction set of this machine, and own rows as messages, at a few points.
std::vector<Point> other_ways() {
  std::vector<Point> points;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_is_available(isa)) continue;
    points.push_back({1, 1, kWholePrompt, "contiguous", false, false, to_string(isa)});
    points.push_back({3, 2, 7, "random:9", true, false, to_string(isa)});
  }
  points.push_back({1, 1, 64, "contiguous", false, true});
  points.push_back({3, 1, 7, "random:2", true, true});
  return points;
}

const std::string kModels = COLIBRI_SOURCE_DIR "/tests/data/models/";

TEST(InvarianceTest, GroupedQueryModelOverTheWholeProduct) {
  expect_invariant({kModels + "qwen2_moe_shared", 96, 70, 3}, whole_product());
}

TEST(InvarianceTest, LatentModelOverTheWholeProduct) {
  expect_invariant({kModels + "deepseek_v3_groups", 96, 70, 3}, whole_product());
}

TEST(InvarianceTest, DemoModelInOtherWays) {
  expect_invariant({COLIBRI_SOURCE_DIR "/configs/models/demo", 1536, 130, 3}, other_ways());
}

TEST(InvarianceTest, EveryFixtureInOtherWays) {
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename());
    expect_invariant({entry.path(), 96, 30, 2}, other_ways());
  }
}

// H 1056, I 800, E 17 and over 300 positions: at least three full blocks and a partial one through
// every blocked loop, which the tiny fixtures never do.
const char* const kBlocksConfig = R"({
  "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 100,
  "hidden_size": 1056, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
  "head_dim": 40, "num_experts": 17, "num_experts_per_tok": 3, "moe_intermediate_size": 800,
  "intermediate_size": 72, "mlp_only_layers": [0], "decoder_sparse_step": 1, "norm_topk_prob": true,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 1024,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "hidden_act": "silu"})";

std::string random_bf16(int64_t count, float scale, std::mt19937& random) {
  std::string bytes(static_cast<size_t>(2 * count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const float unit = static_cast<float>(random() >> 8) * 0x1p-23f - 1;
    const uint16_t bits = float_to_bf16(unit * scale);
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof bits);
  }
  return bytes;
}

void write_blocks_model(const std::filesystem::path& dir) {
  const ModelConfig config = parse_model_config(kBlocksConfig, "made-up config.json");
  std::mt19937 random(7);
  std::vector<TestTensor> tensors;
  for (const WantedTensor& want : wanted_tensors(config, false)) {
    int64_t count = 1;
    for (const int64_t size : want.shape) count *= size;
    const float scale =
        want.shape.size() == 1 ? 1.0f : 2.0f / std::sqrt(static_cast<float>(want.shape.back()));
    tensors.push_back({want.name, "BF16", want.shape, random_bf16(count, scale, random)});
  }
  write_file(dir / "config.json", kBlocksConfig);
  write_file(dir / "model.safetensors", safetensors_image(tensors));
}

TEST(InvarianceTest, ModelOfManyBlocks) {
  const TempDir dir;
  write_blocks_model(dir.path());
  std::vector<Point> points = {{1, 2, 64},
                               {2, 1, 7, "round-robin"},
                               {3, 2, 100, "random:1"},
                               {5, 1, 301},
                               {3, 1, 64, "contiguous", true}};
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2}) {
    if (isa_is_available(isa))
      points.push_back({1, 2, 64, "contiguous", false, false, to_string(isa)});
  }
  expect_invariant({dir.path(), 100, 310, 2}, points);
}

TEST(InvarianceTest, OneBitOfOneExpertWeightIsSeen) {
  const Subject whole{kModels + "qwen2_moe_shared", 96, 70, 1};
  const TempDir dir;
  std::filesystem::copy(whole.model, dir.path() / "m", std::filesystem::copy_options::recursive);
  const auto path = dir.path() / "m" / "model.safetensors";
  std::string bytes = read_file(path);
  const auto header_bytes = static_cast<size_t>(*reinterpret_cast<const uint64_t*>(bytes.data()));
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (name.find("experts.0.down_proj") == std::string::npos) continue;
    bytes[8 + header_bytes + tensor.at("data_offsets").at(0).get<size_t>()] ^= 1;
  }
  write_file(path, bytes);
  const auto damaged = logits_at({dir.path() / "m", 96, 70, 1}, Point{});
  EXPECT_NE(first_difference(logits_at(whole, Point{}), damaged), "");
}

}  // namespace
}  // namespace colibri
