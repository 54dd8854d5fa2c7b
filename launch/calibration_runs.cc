#include "launch/calibration_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "launch/rank_signals.h"

namespace colibri {
namespace {

constexpr int kPasses = 3, kDecodeSteps = 12, kPrefillSteps = 3;

struct Sizes {
  int hidden, width, experts, top_k, layers, heads, kv_heads, head_dim, vocabulary;
};

ModelConfig config_of(const Sizes& s) {
  const std::string json = fmt::format(
      R"({{"model_type": "qwen3_moe", "hidden_size": {}, "intermediate_size": {},
        "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
        "head_dim": {}, "num_experts": {}, "num_experts_per_tok": {}, "moe_intermediate_size": {},
        "norm_topk_prob": true, "tie_word_embeddings": false, "vocab_size": {},
        "max_position_embeddings": 4096, "rope_theta": 10000.0}})",
      s.hidden, 2 * s.width, s.layers, s.heads, s.kv_heads, s.head_dim, s.experts, s.top_k, s.width,
      s.vocabulary);
  return parse_model_config(json, "a shape made for calibration");
}

// Few and many tokens, short and long contexts; reading many long prompts would take the most time.
std::vector<StepCase> cases_up_to(int64_t prompt, int64_t most_behind_long_context) {
  std::vector<StepCase> cases;
  for (const int64_t tokens : {1, 2, 4, 8, 16}) cases.push_back({false, tokens, 16});
  for (int64_t tokens = 1; tokens <= most_behind_long_context; tokens *= 4) {
    cases.push_back({false, tokens, 800});
  }
  for (int64_t tokens = 32; tokens <= prompt; tokens *= 4) cases.push_back({true, tokens, 0});
  return cases;
}

CommonOptions options_for(const CommonOptions& given, const std::vector<StepCase>& cases) {
  CommonOptions options = given;
  options.chunk = 1;
  options.max_batch = 1;
  for (const StepCase& what : cases) {
    options.chunk = std::max({options.chunk, what.num_tokens, int64_t{512}});
    if (!what.is_prefill) {
      options.max_batch = std::max(options.max_batch, static_cast<int>(what.num_tokens));
    }
  }
  return options;
}

SessionNeeds needs_of(const std::vector<StepCase>& cases) {
  SessionNeeds needs;
  for (const StepCase& what : cases) {
    needs.max_context =
        std::max(needs.max_context,
                 what.is_prefill ? what.num_tokens + 1 : what.context + what.num_tokens + 64);
    if (!what.is_prefill) {
      needs.num_sequences = std::max(needs.num_sequences, static_cast<int>(what.num_tokens));
    }
  }
  return needs;
}

}  // namespace

std::vector<CalibrationShape> calibration_shapes() {
  return {
      {"tiny", config_of({128, 96, 20, 3, 4, 4, 2, 32, 768}), cases_up_to(512, 8)},
      {"small", config_of({256, 160, 24, 4, 4, 8, 2, 32, 1024}), cases_up_to(512, 8)},
      {"middle", config_of({1024, 512, 32, 4, 4, 16, 4, 64, 4096}), cases_up_to(512, 4)},
      {"wide", config_of({1792, 896, 48, 6, 4, 28, 4, 128, 16384}), cases_up_to(128, 1)},
      // More than any cache holds.
      {"large", config_of({1536, 640, 96, 6, 8, 24, 4, 128, 16384}), cases_up_to(128, 1)},
  };
}

std::vector<CalibrationRun> run_calibration(const RunConfig& config, RankContext& context) {
  std::vector<CalibrationRun> runs;
  for (const CalibrationShape& shape : calibration_shapes()) {
    SessionHooks hooks;
    hooks.shape = shape.config;
    ProfiledOps* ops = nullptr;  // the last one made, which lives as long as the session
    hooks.wrap_ops = [&](std::unique_ptr<Ops> plain, Device& device) {
      auto made = std::make_unique<ProfiledOps>(std::move(plain), device, 0);
      ops = made.get();
      return made;
    };
    const auto prepare = [&](const Checkpoint&) { return needs_of(shape.cases); };
    const auto measure = [&](ModelSession& session, Serving& serving) {
      CalibrationRun run{.shape = session.shape(), .samples = {}};
      StepProbe probe(session, serving, *ops);
      // Pass by pass, so that a slow moment of the machine meets all cases alike.
      std::vector<std::vector<StepSample>> passes(shape.cases.size());
      for (int pass = 0; pass < kPasses; ++pass) {
        for (size_t i = 0; i < shape.cases.size(); ++i) {
          const StepCase& what = shape.cases[i];
          if (drain_requested()) {
            fail(ErrorKind::kEnvironment, "the calibration was stopped; no file is written");
          }
          passes[i].push_back(probe.run(what, what.is_prefill ? kPrefillSteps : kDecodeSteps));
        }
      }
      for (const auto& samples : passes) run.samples.push_back(median_sample(samples));
      runs.push_back(std::move(run));
      return 0;
    };
    const int code =
        run_session(options_for(config.common, shape.cases), context, prepare, hooks, measure);
    check(code == 0, "the calibration's shape ", shape.name, " ended with ", code);
    // The workers' posted receives belong to the session that has ended.
    if (context.transport != nullptr) context.transport->set_epoch(context.transport->epoch() + 1);
  }
  return runs;
}

}  // namespace colibri
