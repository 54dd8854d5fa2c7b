// One prompt and what is wanted of it; and what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/logit_rules.h"
#include "coordinator/sampler.h"
#include "coordinator/token_scores.h"

namespace colibri {

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled };
inline const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

// Called once, when the request's first tokens go into a step. May call nothing of the engine.
using OnBegin = std::function<void()>;
// Called for every new token, in order; returns false to end the sequence (a stop string was
// found).
using OnToken = std::function<bool(int32_t id)>;
// Called with the logits [V] of each scored position, in order of position.
using OnLogits = std::function<void(std::span<const float> logits)>;
// Called with the score of each token that on_logits sees the logits for: of a new one before
// on_token, of a prompt's where score_prompt is set.
using OnScore = std::function<void(const TokenScore& score)>;

// Called once, with the log probabilities of the tokens of each continuation.
using OnContinuations = std::function<void(std::span<const std::vector<double>> logprobs)>;

// Called once, before any other, when its first tokens have run: so many leading ones were not
// computed, because an earlier text began alike.
using OnStart = std::function<void(int64_t num_reused)>;
// Called once, after everything else and when the request's memory is given back.
using OnEnd = std::function<void(FinishReason reason)>;

struct Request {
  std::vector<int32_t> prompt_ids;  // at least one
  int64_t max_tokens = 0;           // at most this many new ones; 0: score only
  SamplingParams sampling;
  LogitRuleParams logit_rules = {};  // what it changes in logits; nobody is shown that
  uint64_t choice_idx = 0;           // tells apart several samples of one prompt
  std::vector<int32_t> stop_ids;     // end the sequence; on_token sees it as the last
  bool score_prompt = false;         // on_logits and on_score also see prompt positions
  OnBegin on_begin;                  // may be empty
  OnToken on_token;
  OnLogits on_logits;      // may be empty
  OnScore on_score;        // may be empty
  int num_top_scores = 0;  // how many of the most likely tokens it is told
  OnStart on_start;        // may be empty
  // Texts that each follow the prompt, scored one after the other; the prompt is read once for all.
  // With max_tokens 0 and without score_prompt.
  std::vector<std::vector<int32_t>> continuations = {};
  OnContinuations on_continuations;
  OnEnd on_end;            // may be empty; with it the engine keeps nothing of an ended request
  std::string cache_salt;  // what it computes is reused only by requests of the same salt
};

}  // namespace colibri
