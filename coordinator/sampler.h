// How the next token is drawn. Pure functions: the same logits, parameters, seed and position give
// the same token on every machine.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/op_types.h"

namespace colibri {

struct SamplingParams {
  bool greedy = true;
  float temperature = 1;  // > 0
  float top_p = 1;        // (0, 1]
  int top_k = 0;          // 0: off
  float min_p = 0;        // [0, 1): of the most likely token's probability
  uint64_t seed = 0;
};

// Fails with kInput naming the parameter, its value and its range.
void check_sampling(const SamplingParams& params);

// A number in [0, 1) from (seed, choice, position): counter based, no state.
double random_unit(uint64_t seed, uint64_t choice_idx, uint64_t position);

// Which of several samples of one prompt draws, and at which position.
struct DrawPlace {
  uint64_t choice_idx = 0;
  uint64_t position = 0;
};

// What the operation is told: logits / temperature, top-k, softmax, top-p, min-p, in that order (as
// transformers does). Without top-k all `vocab_size` tokens may be drawn.
TokenDraw token_draw(const SamplingParams& params, const DrawPlace& place, int64_t vocab_size);

// Picks a token of logits [V] on the host: the bits of the operation, and any top_k. Fails with
// kInput naming the token whose logit is NaN or infinite.
int32_t sample(std::span<const float> logits, const TokenDraw& draw);

}  // namespace colibri
