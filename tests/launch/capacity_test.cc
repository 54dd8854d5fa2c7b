// The tables of docs/multi-gpu.md, computed anew from the models' shapes: the document may not say
// another number than this arithmetic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "model/config.h"
#include "model/shapes.h"
#include "model/weight_format.h"
#include "topology/gpu_memory_plan.h"

namespace colibri {
namespace {

constexpr int kWorkers = 7;
constexpr double kReserveBytes = 4e9;  // activations, messages, logits, CUDA context
constexpr double kReachedOfBandwidth = 0.8, kReachedOfPeak = 0.55;
constexpr double kPeakFlops = 989e12;     // bf16, dense
constexpr double kLinkBytesPerS = 350e9;  // NVLink 4, one direction, measured by others
constexpr int kBytesPerValue = 2;         // bf16

struct Machine8 {
  const char* name;
  double memory_bytes, bandwidth, exchange_floor_s;
};
constexpr Machine8 kH100{"8×H100", 80e9, 3350e9, 8.0e-6};
constexpr Machine8 kH200{"8×H200", 141e9, 4800e9, 8.7e-6};

struct Case {
  const char* name;
  const char* shape;
  Machine8 machine;
  const char* weights;
};
const Case kCases[] = {{"Qwen3-235B", "qwen3-235b-a22b", kH100, "bf16"},
                       {"Qwen3-235B", "qwen3-235b-a22b", kH200, "bf16"},
                       {"GLM-4.5", "glm-4.5", kH100, "q8"},
                       {"GLM-4.5", "glm-4.5", kH200, "bf16"},
                       {"DeepSeek-V3", "deepseek-v3", kH100, "q4"},
                       {"DeepSeek-V3", "deepseek-v3", kH200, "q8"}};

ModelShape shape_of(const Case& c) {
  return model_shape(*named_shape(c.shape), parse_weight_formats(c.weights, "bf16"), DType::kBF16);
}

double experts_per_worker_bytes(const ModelShape& s) {
  return static_cast<double>(s.expert_bytes) * s.num_experts * s.num_moe_layers() / kWorkers;
}

double left_bytes(const Case& c, const ModelShape& s) {
  return c.machine.memory_bytes - static_cast<double>(s.coordinator_weight_bytes) - kReserveBytes -
         static_cast<double>(nccl_buffer_bytes(kWorkers + 1));
}

double kv_tokens(const Case& c, const ModelShape& s) {
  return std::floor(left_bytes(c, s) / static_cast<double>(s.kv_bytes_per_token));
}

double num_sequences(const Case& c, const ModelShape& s, int context) {
  return std::floor(kv_tokens(c, s) / context);
}

// The share of experts that `tokens` tokens choose, each K of E at random.
double share_touched(const ModelShape& s, double tokens) {
  return 1 - std::pow(1 - static_cast<double>(s.top_k) / s.num_experts, tokens);
}

// Seconds of one decode step, part by part.
struct Step {
  double sequences, dense_s, kv_s, experts_s, exchange_s;
  double total() const { return dense_s + kv_s + experts_s + exchange_s; }
};

Step step_of(const Case& c, const ModelShape& s, int context) {
  const double sequences = num_sequences(c, s, context);
  const double bandwidth = c.machine.bandwidth * kReachedOfBandwidth;
  const double flops = kPeakFlops * kReachedOfPeak;
  const double positions = sequences * context;
  const double kv_read_s = positions * static_cast<double>(s.kv_bytes_per_token) / bandwidth;
  const double kv_work_s = 2 * positions * static_cast<double>(s.attention_macs) / flops;
  const double dense_read_s = static_cast<double>(s.layer_bytes + s.head_bytes) / bandwidth;
  const double dense_work_s =
      2 * sequences * static_cast<double>(s.dense_macs + s.head_macs) / flops;
  return {.sequences = sequences,
          .dense_s = std::max(dense_read_s, dense_work_s),
          .kv_s = std::max(kv_read_s, kv_work_s),
          .experts_s = experts_per_worker_bytes(s) * share_touched(s, sequences) / bandwidth,
          .exchange_s = 2 * c.machine.exchange_floor_s * s.num_moe_layers()};
}

// One row a (token, expert) comes back, without any sum on the way (--combine exact).
double link_tokens_per_s(const ModelShape& s) {
  return kLinkBytesPerS /
         (static_cast<double>(s.top_k * s.hidden_size * kBytesPerValue) * s.num_moe_layers());
}

std::string memory_row(const Case& c) {
  const ModelShape s = shape_of(c);
  return fmt::format(
      "| {} | {} | {} | {:.1f} GB | {:.1f} GB | {:.1f} GB | {} | {:.0f}k | {:.0f} | {:.0f} |",
      c.name, c.machine.name, c.weights, experts_per_worker_bytes(s) / 1e9,
      static_cast<double>(s.coordinator_weight_bytes) / 1e9, left_bytes(c, s) / 1e9,
      s.kv_bytes_per_token, kv_tokens(c, s) / 1000, num_sequences(c, s, 4096),
      num_sequences(c, s, 32768));
}

std::string step_row(const Case& c, int context) {
  const ModelShape s = shape_of(c);
  const Step t = step_of(c, s, context);
  return fmt::format(
      "| {} | {} | {}k | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.1f}k | {:.0f} |",
      c.name, c.machine.name, context / 1024, t.sequences, t.dense_s * 1e3, t.kv_s * 1e3,
      t.experts_s * 1e3, t.exchange_s * 1e3, t.sequences / (t.dense_s + t.kv_s),
      link_tokens_per_s(s) / 1e3, t.sequences / t.total());
}

// Attention and dense products of a prompt on GPU 0, experts and exchange left out.
double prefill_s(const ModelShape& s, double tokens) {
  const double macs = tokens * static_cast<double>(s.dense_macs) +
                      tokens * tokens / 2 * static_cast<double>(s.attention_macs);
  return 2 * macs / (kPeakFlops * kReachedOfPeak);
}

std::string prefill_row(const Case& c) {
  const ModelShape s = shape_of(c);
  return fmt::format("| {} | {:.2f} s | {:.1f} s |", c.name, prefill_s(s, 4096),
                     prefill_s(s, 32768));
}

std::string document() {
  std::ifstream file(std::string(COLIBRI_SOURCE_DIR) + "/docs/multi-gpu.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(CapacityTest, DocumentsMemoryTableIsThisArithmetic) {
  for (const Case& c : kCases) {
    EXPECT_NE(document().find(memory_row(c)), std::string::npos) << memory_row(c);
  }
}

TEST(CapacityTest, DocumentsStepTableIsThisArithmetic) {
  for (const Case& c : kCases) {
    for (const int context : {4096, 32768}) {
      EXPECT_NE(document().find(step_row(c, context)), std::string::npos) << step_row(c, context);
    }
  }
}

TEST(CapacityTest, DocumentsPrefillTableIsThisArithmetic) {
  for (const Case& c : kCases) {
    EXPECT_NE(document().find(prefill_row(c)), std::string::npos) << prefill_row(c);
  }
}

TEST(CapacityTest, EveryCaseOfTheDocumentFits) {
  for (const Case& c : kCases) {
    const double free = c.machine.memory_bytes - kReserveBytes -
                        static_cast<double>(nccl_buffer_bytes(kWorkers + 1));
    EXPECT_LT(experts_per_worker_bytes(shape_of(c)), free) << c.name << " on " << c.machine.name;
    EXPECT_GE(num_sequences(c, shape_of(c), 32768), 1) << c.name << " on " << c.machine.name;
  }
}

// The example that the document shows in full.
TEST(CapacityTest, WorkedExampleByHand) {
  const ModelShape s = shape_of(kCases[0]);
  EXPECT_EQ(s.kv_bytes_per_token, 94 * 2 * 4 * 128 * 2);
  EXPECT_EQ(s.expert_bytes, 3 * 4096 * 1536 * 2);
  EXPECT_NEAR(experts_per_worker_bytes(s), 128.0 * 94 * 37.75e6 / 7, 1e7);
}

}  // namespace
}  // namespace colibri
