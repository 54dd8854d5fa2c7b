// Runs a checkpoint in this process, ranks as threads, and returns what it said.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/model_session.h"
#include "launch/run_config.h"

namespace colibri {

struct ModelRun {
  CommonOptions options;  // model, ranks, threads, placement, chunk, isa, ...
  std::vector<std::vector<int32_t>> prompts;
  int64_t max_tokens = 0;
  bool score_prompt = false;  // logits of all positions of prompt 0
  // Has the last word on what is asked for each prompt.
  std::function<void(size_t prompt_idx, Request& request)> adjust = {};
  SessionHooks hooks = {};
  ChosenDevice device = {};  // of every rank, instead of what the options ask for
};

struct ModelOutput {
  std::vector<std::vector<int32_t>> ids;   // new ids of each prompt, greedy, end-of-text ignored
  std::vector<std::vector<float>> logits;  // rows [V] of prompt 0
  FixedStepTotals fixed_steps;
};

// Errors: those of the run, from rank 0.
ModelOutput run_model(const ModelRun& run);

}  // namespace colibri
