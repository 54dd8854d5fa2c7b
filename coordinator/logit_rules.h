// What a request changes in its logits before a token is picked of them: biases, penalties for what
// was said before, and tokens that may not come yet. On the host; pure but for the counts of what
// was picked, so the same text gives the same logits whoever runs beside it and however often it is
// computed.
//
// In this order, for token t with logit z, which came c times among the generated ones:
//   z += bias(t)
//   z = z > 0 ? z / repetition : z * repetition    where t is in the prompt or c > 0
//   z -= frequency * c
//   z -= presence                                  where c > 0
// and tokens that end the text are not picked before min_tokens others. In double, rounded once.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/op_types.h"

namespace colibri {

struct LogitRuleParams {
  double presence_penalty = 0, frequency_penalty = 0;
  double repetition_penalty = 1;         // > 0
  std::map<int32_t, float> biases = {};  // by token id
  int64_t min_tokens = 0;

  // Whether any of it has an effect.
  bool has_effect() const;
};

class LogitRules {
 public:
  // `end_ids` end the text; those outside the vocabulary are passed over, as biases and prompt ids
  // are.
  LogitRules(LogitRuleParams params, std::span<const int32_t> prompt,
             std::span<const int32_t> end_ids);

  // A token was picked.
  void push(int32_t id);

  // Picks of raw logits [V] as `draw` says of the changed ones. kInput as sample(). Cost: O(V).
  int32_t pick(std::span<const float> logits, TokenDraw draw) const;

  // Changes logits [V] in place; those of barred tokens become the lowest number. Returns how many
  // are barred. What is not finite stays so; nothing else becomes so.
  int64_t apply(std::span<float> logits) const;

 private:
  struct Seen {
    bool is_in_prompt = false;
    int64_t num_generated = 0;
  };
  double changed(double logit, const Seen& seen) const;

  LogitRuleParams params_;
  std::map<int32_t, Seen> seen_;  // of the prompt only where that matters
  std::vector<int32_t> end_ids_;  // each once
  int64_t num_generated_ = 0;
};

}  // namespace colibri
