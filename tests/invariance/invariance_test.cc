// Promise 1 bit for bit: placement, ranks, threads, chunks, mates, instruction sets and the way
// rows travel change speed, never a bit of the logits.

#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "kernels/ops.h"
#include "tests/support/local_device_link.h"
#include "tests/support/model_files.h"
#include "tests/support/random_model.h"
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
  bool device_rows = false;  // planned where the operations run, rows from memory to memory
  FixedCapacity fixed = {};  // then
  bool is_skewed = false;    // experts by Zipf's law, not by the router
};

std::string name_of(const Point& p) {
  return std::to_string(p.ranks) + " ranks, " + std::to_string(p.threads) + " threads, chunk " +
         std::to_string(p.chunk) + ", " + p.placement + (p.with_mates ? ", with mates" : "") +
         (p.self_exchange ? ", self-exchange" : "") + (p.device_rows ? ", device rows" : "") +
         ", up to " + std::to_string(p.fixed.max_tokens) + " tokens in " +
         std::to_string(p.fixed.first_share) + " shares, " + p.isa +
         (p.is_skewed ? ", skewed" : "");
}

std::vector<int32_t> prompt_of(int length, int64_t vocab, int step) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>((i * i * 7 + i * static_cast<size_t>(step)) %
                                  static_cast<size_t>(vocab));
  }
  return ids;
}

// What a run keeps its weights as.
struct Form {
  std::string weights = "auto", dense_weights = "auto";
};

const Form kQuantisedForms[] = {{"q8", "auto"}, {"q4", "auto"}, {"q8", "q8"}, {"q4", "q4"}};

struct Subject {
  std::string model;
  int64_t vocab = 0;
  int prompt_length = 0;
  int64_t max_tokens = 0;
  Form form = {};
};

std::vector<std::vector<float>> logits_at(const Subject& subject, const Point& point) {
  ModelRun run;
  run.options.model = subject.model;
  run.options.weights = subject.form.weights;
  run.options.dense_weights = subject.form.dense_weights;
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
  LocalDeviceFabric fabric(point.ranks);
  if (point.device_rows) {
    run.hooks.make_link = [&](RankContext& context, Device& device) {
      return fabric.link(context.rank, device);
    };
    run.hooks.fixed_capacity = point.fixed;
  }
  if (point.is_skewed) {
    run.hooks.make_routing = [](const ModelConfig& config) {
      return make_random_routing(config, 0.9, 3);
    };
  }
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
    ASSERT_EQ(first_difference(reference, logits_at(subject, point)), "")
        << name_of(point) << ", weights " << subject.form.weights << ", dense weights "
        << subject.form.dense_weights;
  }
}

struct Axes {
  std::vector<int> ranks, threads;
  std::vector<int64_t> chunks;
  std::vector<const char*> placements;
};

std::vector<Point> product_of(const Axes& axes) {
  std::vector<Point> points;
  for (const int ranks : axes.ranks) {
    for (const int threads : axes.threads) {
      for (const int64_t chunk : axes.chunks) {
        for (const char* placement : axes.placements) {
          for (const bool mates : {false, true}) {
            points.push_back({ranks, threads, chunk, placement, mates});
          }
        }
      }
    }
  }
  return points;
}

std::vector<Point> whole_product() {
  return product_of({{1, 2, 3, 5, 7},
                     {1, 3},
                     {1, 7, 64, kWholePrompt},
                     {"contiguous", "round-robin", "random:5"}});
}

// For forms of weights, which differ in the products only.
std::vector<Point> smaller_product() {
  return product_of({{1, 2, 3, 5}, {1, 3}, {7, kWholePrompt}, {"contiguous", "random:5"}});
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
  points.push_back({3, 1, 7, "auto", true});
  points.push_back({5, 1, 64, "auto", true, false, "auto", true});
  points.push_back({2, 1, kWholePrompt, "contiguous", false, false, "auto", true});
  points.push_back({5, 1, 7, "random:3", true, false, "auto", true});
  // All steps, and with so little room for results that most run again.
  points.push_back({3, 1, 64, "random:4", true, false, "auto", true, {64, 32}});
  points.push_back({3, 1, 7, "contiguous", true, false, "auto", true, {64, 2}});
  // Own rows as messages from memory to memory.
  points.push_back({1, 1, 7, "contiguous", true, true, "auto", true, {64, 2}});
  points.push_back({3, 1, 7, "random:4", true, true, "auto", true, {64, 4}});
  return points;
}

const std::string kModels = COLIBRI_SOURCE_DIR "/tests/data/models/";
const std::string kDemo = COLIBRI_SOURCE_DIR "/configs/models/demo";

TEST(InvarianceTest, GroupedQueryModelOverTheWholeProduct) {
  expect_invariant({kModels + "qwen2_moe_shared", 96, 70, 3}, whole_product());
}

TEST(InvarianceTest, LatentModelOverTheWholeProduct) {
  expect_invariant({kModels + "deepseek_v3_groups", 96, 70, 3}, whole_product());
}

TEST(InvarianceTest, Fp8ModelOverASmallerProduct) {
  expect_invariant({kModels + "deepseek_v3_fp8", 96, 70, 3}, smaller_product());
}

// Both forms hold quantised experts; the way that own rows and messages go is that of experts.
TEST(InvarianceTest, QuantisedFp8ModelOverASmallerProduct) {
  for (const char* weights : {"q8", "q4"}) {
    const Form form{weights, weights};
    expect_invariant({kModels + "deepseek_v3_fp8", 96, 70, 3, form}, smaller_product());
  }
}

TEST(InvarianceTest, QuantisedModelsInOtherWays) {
  for (const Form& form : kQuantisedForms) {
    expect_invariant({kModels + "deepseek_v3_fp8", 96, 70, 3, form}, other_ways());
    expect_invariant({kDemo, 1536, 70, 2, form}, other_ways());
  }
}

TEST(InvarianceTest, DemoModelInOtherWays) {
  expect_invariant({kDemo, 1536, 130, 3}, other_ways());
}

TEST(InvarianceTest, AnotherChoiceThanTheRoutersInOtherWays) {
  const Subject subject{kDemo, 1536, 70, 3};
  Point point;
  point.is_skewed = true;
  const auto reference = logits_at(subject, point);
  EXPECT_NE(first_difference(reference, logits_at(subject, Point{})), "");
  point.ranks = 3;
  point.with_mates = point.device_rows = true;
  for (const FixedCapacity fixed : {FixedCapacity{}, FixedCapacity{64, 32}, FixedCapacity{64, 2}}) {
    point.fixed = fixed;
    EXPECT_EQ(first_difference(reference, logits_at(subject, point)), "") << name_of(point);
  }
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

std::vector<Point> few_points() {
  std::vector<Point> points = {{1, 2, 64},
                               {2, 1, 7, "round-robin"},
                               {3, 2, 100, "random:1"},
                               {5, 1, 301},
                               {3, 1, 64, "contiguous", true}};
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2}) {
    if (isa_is_available(isa))
      points.push_back({1, 2, 64, "contiguous", false, false, to_string(isa)});
  }
  return points;
}

TEST(InvarianceTest, ModelOfManyBlocks) {
  const TempDir dir;
  write_random_model(dir.path(), kBlocksConfig, 7);
  expect_invariant({dir.path(), 100, 310, 2}, few_points());
}

// From .colibri files, so that the weights are encoded once.
TEST(InvarianceTest, QuantisedModelOfManyBlocks) {
  const TempDir dir;
  // Widths of attention and of the dense layer that can be grouped.
  std::string config = kBlocksConfig;
  config.replace(config.find("\"head_dim\": 40"), 14, "\"head_dim\": 48");
  config.replace(config.find("\"intermediate_size\": 72"), 23, "\"intermediate_size\": 96");
  write_random_model(dir.path(), config, 7);
  for (const char* weights : {"q8", "q4"}) {
    const auto path = dir / (std::string(weights) + ".colibri");
    write_container(dir.path(), parse_weight_formats(weights, weights), path);
    expect_invariant({path, 100, 310, 2}, few_points());
  }
}

TEST(InvarianceTest, ConvertedModelsHaveTheBitsOfTheirDirectory) {
  const TempDir dir;
  int num = 0;
  for (const std::string& model : {kDemo, kModels + "deepseek_v3_fp8"}) {
    for (const Form& form : {Form{"bf16", "auto"}, Form{"q8", "auto"}, Form{"q4", "q4"}}) {
      const auto path = dir / (std::to_string(++num) + ".colibri");
      write_container(model, parse_weight_formats(form.weights, form.dense_weights), path);
      for (const int ranks : {1, 3}) {
        const auto got = logits_at({path, 96, 70, 3}, {ranks});
        EXPECT_EQ(first_difference(logits_at({model, 96, 70, 3, form}, Point{}), got), "")
            << model << ", " << form.weights;
      }
    }
  }
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
