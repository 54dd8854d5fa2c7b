// One row of Ops::pick_tokens on the host: what the CPU backend does with every row, and the caller
// with rows that a GPU does not draw from.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/op_types.h"

namespace colibri {

// As PickTokens says for logits [V]; draw.top_k may be any number up to V. -1 where a logit is not
// finite. One thread; a draw sorts the top_k largest of V.
int32_t pick_token(std::span<const float> logits, const TokenDraw& draw);

}  // namespace colibri
