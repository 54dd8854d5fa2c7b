#include <array>
#include <cmath>

#include "tests/topology/published.h"
#include "topology/device_spec.h"

namespace colibri {
namespace {

const char* const kAic = "ai-dynamo/aiconfigurator 095f58a, systems/data";

struct Ffn {
  double num_experts = 0, top_k = 0, hidden = 0, width = 0, weight_bytes = 0;
  double expert_bytes() const { return 3 * hidden * width * weight_bytes; }
  double row_operations() const { return 2 * 3 * hidden * width; }
};
constexpr Ffn kDeepSeek{256, 8, 7168, 2048, 1};

// p with ((x^p + y^p)^(1/p)) = total is not needed: p is 1.5 throughout, so one part follows from
// the other.
double other_part(double total, double part) {
  return std::pow(std::pow(total, 1.5) - std::pow(part, 1.5), 1 / 1.5);
}

std::string count_text(double count, const char* what) {
  return std::to_string(static_cast<int>(count)) + " " + what;
}

// SGLang 0.5.10, DeepEP's expert operation in FP8, few rows: bytes alone.
struct GroupedTable {
  const char* device;
  std::array<double, 7> us;  // of 64, 32, 16, 8, 4, 2, 1 experts
};
constexpr std::array<double, 7> kNumExperts{64, 32, 16, 8, 4, 2, 1};
constexpr size_t kFitMany = 1, kFitFew = 5;
constexpr GroupedTable kH100{"H100", {1049, 531, 275, 150, 85, 53, 35}};
constexpr GroupedTable kH200{"H200", {735, 383, 204, 113, 66, 43, 30}};

OpCost line_of(const GroupedTable& table) {
  const double more = (kNumExperts[kFitMany] - kNumExperts[kFitFew]) * kDeepSeek.expert_bytes();
  OpCost cost;
  cost.gbps = more / (table.us[kFitMany] - table.us[kFitFew]) / 1e3;
  cost.fixed_us =
      table.us[kFitFew] - kNumExperts[kFitFew] * kDeepSeek.expert_bytes() / (cost.gbps * 1e3);
  return cost;
}

PublishedTable grouped(const GroupedTable& table) {
  PublishedTable result{std::string("expert feed-forward, few rows, ") + table.device,
                        kAic,
                        "fixed_us and gbps from 32 and 2 experts",
                        {}};
  const OpCost cost = line_of(table);
  for (size_t i = 0; i < kNumExperts.size(); ++i) {
    result.rows.push_back({count_text(kNumExperts[i], "experts"), table.us[i],
                           cost.us({.bytes = kNumExperts[i] * kDeepSeek.expert_bytes()}),
                           i == kFitMany || i == kFitFew ? RowUse::kFit : RowUse::kJudged});
  }
  return result;
}

// H200's line, with the rate of computing from the row with most tokens.
OpCost h200_cost() {
  OpCost cost = line_of(kH200);
  const double reading = kDeepSeek.expert_bytes() / (cost.gbps * 1e3);
  const double computing = other_part(88 - cost.fixed_us, reading);
  cost.gops = 32768 * 8 / 256.0 * kDeepSeek.row_operations() / computing / 1e3;
  return cost;
}

PublishedTable shoulder() {
  PublishedTable result{"expert feed-forward, many rows, H200",
                        kAic,
                        "fixed_us and gbps as above, gops from 32768 tokens, sharpness 1.5",
                        {}};
  const OpCost cost = h200_cost();
  const auto row = [&](double tokens, double experts, double us, RowUse use) {
    const double pairs = tokens * kDeepSeek.top_k / kDeepSeek.num_experts * experts;
    result.rows.push_back({count_text(tokens, "tokens, ") + count_text(experts, "of 256 experts"),
                           us,
                           cost.us({.bytes = experts * kDeepSeek.expert_bytes(),
                                    .operations = pairs * kDeepSeek.row_operations()}),
                           use});
  };
  row(4096, 1, 34, RowUse::kJudged);
  row(8192, 1, 41.5, RowUse::kJudged);
  row(16384, 1, 57, RowUse::kJudged);
  row(32768, 1, 88, RowUse::kFit);
  row(4096, 8, 124, RowUse::kJudged);
  return result;
}

// vLLM 0.24 on H200. Besides reading and computing it passes over the activations of all pairs,
// local or not: gate and up read, their product written and read, rows written and added, bf16.
struct FusedTable {
  const char* name;
  Ffn ffn;
  double num_ranks = 8;
  std::array<double, 6> us;  // of kTokens
  size_t num_judged = 6;     // the first ones
};
constexpr std::array<double, 6> kTokens{1, 8, 32, 128, 512, 4096};

double fused_us(const FusedTable& table, OpCost cost, double tokens) {
  const Ffn& ffn = table.ffn;
  const double pairs = tokens * ffn.top_k / table.num_ranks;
  const double touched = std::min(ffn.num_experts / table.num_ranks, std::max(1.0, pairs));
  const double passed = tokens * ffn.top_k * 2 * (3 * ffn.width + 2 * ffn.hidden);
  return cost.us(
             {.bytes = touched * ffn.expert_bytes(), .operations = pairs * ffn.row_operations()}) +
         passed / (cost.gbps * 1e3);
}

PublishedTable fused(const FusedTable& table) {
  OpCost cost = h200_cost();
  // One token, Qwen3-235B EP8: 43 us bf16, 32 us FP8.
  const bool is_wide = table.ffn.weight_bytes > 1;
  cost.fixed_us = (is_wide ? 43 : 32) - 3 * 4096 * 1536 * table.ffn.weight_bytes / cost.gbps / 1e3;
  if (is_wide) cost.gops /= 2;  // bf16 has half of FP8's peak
  PublishedTable result{table.name,
                        kAic,
                        "fixed_us from one token of Qwen3-235B EP8 (bf16 and FP8 apart), gbps and "
                        "gops from the tables above (bf16: half)",
                        {}};
  for (size_t i = 0; i < kTokens.size(); ++i) {
    const bool is_fit = i == 0 && table.ffn.width == 1536 && table.num_ranks == 8;
    result.rows.push_back({count_text(kTokens[i], "tokens"), table.us[i],
                           fused_us(table, cost, kTokens[i]),
                           is_fit                 ? RowUse::kFit
                           : i < table.num_judged ? RowUse::kJudged
                                                  : RowUse::kShown});
  }
  return result;
}

// SGLang's module of latent attention without its first projection: second query projection,
// absorbed products, output projection (FP8; the absorbed ones bf16), attention over an FP8 cache.
struct LatentRow {
  double batch, context, us;
  RowUse use = RowUse::kJudged;
};

PublishedTable latent(const char* device, const OpCost& dense, const OpCost& attention,
                      const char* constants, const std::vector<LatentRow>& rows) {
  PublishedTable result{std::string("latent attention, 128 heads, ") + device, kAic, constants, {}};
  constexpr double kQuery = 1536 * 24576, kAbsorbed = 512 * 32768, kOutput = 16384 * 7168;
  for (const LatentRow& row : rows) {
    const double positions = row.batch * row.context;
    const double us = dense.us({.bytes = kQuery + 2 * kAbsorbed + kOutput,
                                .operations = 2 * row.batch * (kQuery + kAbsorbed + kOutput)}) +
                      attention.us({.bytes = positions * 576,
                                    .operations = 2 * positions * 128 * (2 * 512 + 64)});
    result.rows.push_back({count_text(row.batch, "sequences of ") + count_text(row.context, ""),
                           row.us, us, row.use});
  }
  return result;
}

}  // namespace

std::vector<FittedDevice> fitted_experts() {
  OpCost h100 = line_of(kH100);
  h100.gops = h200_cost().gops;
  return {{.device = "h200", .link = {}, .experts = h200_cost()},
          {.device = "h100", .link = {}, .experts = h100}};
}

std::vector<PublishedTable> published_experts() {
  const char* const kMixtral =
      "vLLM's times grow from 32 to 512 tokens by more than reading and computing explain (128 "
      "tokens: 92 us to read, 16 to compute)";
  const Ffn qwen{128, 8, 4096, 1536, 2}, qwen_fp8{128, 8, 4096, 1536, 1};
  std::vector<PublishedTable> tables{
      grouped(kH100),
      grouped(kH200),
      shoulder(),
      fused({"vLLM, Qwen3-235B bf16 EP8", qwen, 8, {43, 109, 190, 199, 239, 644}}),
      fused({"vLLM, Qwen3-235B FP8 EP8", qwen_fp8, 8, {32, 64, 103, 119, 138, 357}}),
      fused({"vLLM, Qwen3-235B bf16 EP1", qwen, 1, {96, 575, 1105, 1169, 1232, 2348}}),
      fused({"vLLM, Mixtral-8x7B bf16 EP8",
             {8, 2, 4096, 14336, 2},
             8,
             {136, 137, 139, 209, 338, 1029},
             3}),
      fused({"vLLM, Mixtral-8x22B bf16 EP8",
             {8, 2, 6144, 16384, 2},
             8,
             {185, 196, 196, 266, 456, 1524},
             3})};
  for (size_t i = tables.size() - 2; i < tables.size(); ++i) {
    tables[i].constants += std::string("; not judged from 128 tokens on: ") + kMixtral;
  }
  // H200: 92 us for one sequence without context are 50 us of start beside the weights' bytes; from
  // 128 sequences of 1024 to 2048 are 58 us for 36.5 GOP.
  OpCost dense = h200_cost();
  dense.fixed_us = 24;
  const OpCost attention{.fixed_us = 20, .gbps = dense.gbps, .gops = 630e3, .sharpness = 3};
  tables.push_back(latent(
      "H200", dense, attention,
      "start (24 + 20 us) from one sequence of 1, attention's gops from 128 sequences of 1024 and "
      "2048",
      {{1, 1, 92, RowUse::kFit},
       {1, 8192, 106},
       {16, 1024, 115},
       {16, 4096, 138},
       {32, 1024, 128},
       {32, 4096, 172},
       {64, 1024, 158},
       {64, 4096, 244},
       {128, 1024, 174, RowUse::kFit},
       {128, 2048, 232, RowUse::kFit},
       {256, 1024, 289}}));
  OpCost dense_h100 = dense;
  dense_h100.gbps = line_of(kH100).gbps;
  const OpCost attention_h100{
      .fixed_us = 20, .gbps = dense_h100.gbps, .gops = 630e3, .sharpness = 3};
  tables.push_back(latent("H100", dense_h100, attention_h100,
                          "all from H200's and from the experts' gbps: no row of this table",
                          {{1, 1, 104},
                           {1, 8192, 119},
                           {64, 1024, 185},
                           {64, 4096, 276},
                           {128, 1024, 204},
                           {128, 2048, 265},
                           {256, 1024, 323}}));
  return tables;
}

}  // namespace colibri
