// The coordinator's own matrices that a GPU multiplies with bf16 rows.
#pragma once

#include <vector>

#include "kernels/cuda/dense.h"
#include "model/checkpoint.h"
#include "model/weight_format.h"

namespace colibri {

// Shapes of the matrices kept as bf16 under `formats`, each once, for steps of max_tokens tokens;
// the head is multiplied by at most max_head_rows rows at a time.
std::vector<DenseShape> dense_shapes(const Checkpoint& checkpoint, const WeightFormats& formats,
                                     int64_t max_tokens, int64_t max_head_rows);

}  // namespace colibri
