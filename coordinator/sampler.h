// From logits to the next token. Pure functions: the same logits, parameters, seed and position
// give the same token on every machine.
#pragma once

#include <cstdint>
#include <span>

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

// The most likely token; the lower id among equals. Fails with kInput if a logit is NaN or
// infinite.
int32_t argmax(std::span<const float> logits);

// Draws a token: logits / temperature, top-k, softmax, top-p, min-p, in that order (as transformers
// does), in double, ids ascending among equal logits. `choice_idx` tells apart several samples of
// one prompt.
int32_t sample(std::span<const float> logits, const SamplingParams& params, uint64_t choice_idx,
               uint64_t position);

}  // namespace colibri
