// What one step of a model has to read and to multiply, by kind of operation, and how long a device
// takes for it. Pure.
#pragma once

#include <array>
#include <cstdint>

#include "base/model_shape.h"
#include "topology/device_spec.h"

namespace colibri {

// The tokens of one coordinator's step.
struct StepSize {
  double num_tokens = 1;         // T
  double num_logit_rows = 1;     // tokens whose logits are computed
  double num_prompt_tokens = 0;  // of the tokens
  // Sums over tokens of the positions that each attends to: of tokens that decode, and of prompts'.
  double decode_positions = 0, prompt_positions = 0;
  double prompt_kv_positions = 0;  // positions that the prompts' tokens read, once a prompt
};
// `batch` sequences that decode behind `context` positions each.
StepSize decode_size(double batch, double context);
// A prompt of `tokens` tokens in one step.
StepSize prefill_size(double tokens);

// Of one layer in the mean, but the head, which is of the step. Experts stand apart (expert_us).
//   dense        all the coordinator's products but the head, the shared expert's included; values:
//                macs / H + 2 H a token, about what goes into the products and comes out
//   attention    keys and values of each position seen, 2 attention_macs a position; pieces: a
//                token's heads; values: scores, one for each head and position
//   prompts'     the same, but keys and values are read once for all tokens of a step
//   head         values: V + H a row of logits
//   elementwise  (10 + K) H + E numbers of 4 bytes a token; pieces: tokens
using StepWork = std::array<OpWork, kNumOpKinds>;
StepWork step_work(const ModelShape& shape, const StepSize& size);

// The shared expert's part of `dense`, of a layer with experts: it runs while rows are under way.
OpWork shared_work(const ModelShape& shape, const StepSize& size);

// Weights of one byte and less are narrow.
bool experts_are_narrow(const ModelShape& shape);
bool dense_is_narrow(const ModelShape& shape);

// A coordinator's times: of one layer, in the mean, without exchange and routed experts; and of a
// step's head. 0 for what there is nothing of.
struct OwnTimes {
  double dense_us = 0, attention_us = 0, elementwise_us = 0, head_us = 0;
  double shared_us = 0;  // of a layer with experts
  double layer_us() const { return dense_us + attention_us + elementwise_us; }
};
OwnTimes own_times(const ModelShape& shape, const StepSize& size, const DeviceSpec& device,
                   double cached_share = 0);

// A rank's work for one layer's experts: `touched` of them (the pieces), `pairs` (token, expert)
// pairs; values: 2 H + 3 I a pair.
OpWork expert_work(const ModelShape& shape, double touched, double pairs);
// The time for it; 0 for none.
double expert_us(const ModelShape& shape, const DeviceSpec& device, double touched, double pairs,
                 double cached_share = 0);

// What a coordinator reads in a step: its weights, keys and values.
double own_step_bytes(const ModelShape& shape, const StepSize& size);

// Bytes on the wire. A row: H values in the form that the experts take, 1.125 bytes a value for
// narrow weights, else 4 (CPU) or 2 (GPU). A result: H values of 4 (CPU) or 2 bytes. Headers are
// left out.
double row_bytes(const ModelShape& shape, bool is_gpu);
double result_bytes(const ModelShape& shape, bool is_gpu);

// How rows and results of GPUs travel. CPUs send what there is, whatever the mode.
enum class ExchangeMode : uint8_t {
  kKnownCounts,  // what there is; both ends know how much at no cost
  kHostCounts,   // what there is; a layer's counts come to the host first, and from it to the ranks
  kFixedSize,    // room for T rows to each rank, and for results_room() back
};

// Results that each rank has room for in a layer of a step of T tokens with K choices each, when
// the fullest has `most`: all that could come up to 4 tokens; else half as much again as there are,
// in even 32nds of all, as the runtime settles on when every step is like the mean.
double results_room(double num_tokens, double top_k, double most);

}  // namespace colibri
