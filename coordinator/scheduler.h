// Which tokens go into the next step. Pure: no clock, no memory of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

// A running sequence as the scheduler sees it.
struct SequenceState {
  int64_t num_known = 0;   // ids known: prompt and generated
  int64_t num_cached = 0;  // of these, already in the KV cache; less than num_known
};

// Tokens [num_cached, num_cached + count) of a sequence run in this step.
struct StepPart {
  int sequence_idx = 0;
  int64_t count = 0;
};

struct StepLimits {
  int64_t max_tokens = 512;  // of all sequences together
  int64_t chunk = 512;       // of one prompt
};

// Decoding sequences (one token to run) come first, in order, then prompts, in order, each at most
// `chunk` tokens, until max_tokens are taken. Never empty if a sequence has a token to run.
void plan_step(std::span<const SequenceState> sequences, const StepLimits& limits,
               std::vector<StepPart>& parts);

}  // namespace colibri
