// From byte ranges to matrices in memory. Both the coordinator (its own tensors) and the workers
// (their experts) load through these few functions.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/tensor_view.h"
#include "model/checkpoint.h"
#include "model/weight_format.h"

namespace colibri {

// A matrix with its memory.
struct OwnedMatrix {
  Buffer memory;
  MatrixView view;
};

// Reads `range` into `out` as `kept`: matrix_bytes(kept, rows, cols). FP8 values are multiplied by
// the scale of their block, in f32; then, as all others, rounded to bf16 or quantised. `scratch` is
// reused between calls and grows to a few MB, or to 16 rows if they are longer. Errors: as
// Checkpoint::read; kInput naming the tensor for a width that q8 or q4 cannot group, for values
// they cannot hold, and for FP8 values or scales that are not finite; kUnsupported for a stored q8
// or q4 asked for as another.
void load_range(const Checkpoint& checkpoint, const TensorRange& range, DType kept, void* out,
                Buffer& scratch);

// Rows [first, first + num_rows) of a range with their block scales; first is a multiple of
// kScaleBlock, which holds whole panels too.
TensorRange row_slice(const TensorRange& range, int64_t first, int64_t num_rows);

// A vector or a small matrix widened to f32: norms, biases, router.
std::vector<float> load_floats(const Checkpoint& checkpoint, const TensorKey& key);

}  // namespace colibri
