// From byte ranges to matrices in memory. Both the coordinator (its own tensors) and the workers
// (their experts) load through these few functions.
#pragma once

#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/tensor_view.h"
#include "model/checkpoint.h"

namespace colibri {

// What --weights asks for: the checkpoint's own type (f16 becomes f32), or all wide, or all bf16.
enum class WeightFormat : uint8_t { kAsStored, kF32, kBF16 };
// "auto", "f32", "bf16"; fails with kInput for another word and with kUnsupported for q8 and q4.
WeightFormat parse_weight_format(const std::string& text);

// The element type a stored tensor has in memory.
DType kept_dtype(DType stored, WeightFormat format);

// A matrix with its memory.
struct OwnedMatrix {
  Buffer memory;
  MatrixView view;
};

// Reads `range` into `out` as elements of kept_dtype(range.dtype, format). `scratch` is reused
// between calls.
void load_range(const Checkpoint& checkpoint, const TensorRange& range, WeightFormat format,
                void* out, Buffer& scratch);

OwnedMatrix load_matrix(const Checkpoint& checkpoint, const TensorKey& key, WeightFormat format);

// A vector or a small matrix widened to f32: norms, biases, router.
std::vector<float> load_floats(const Checkpoint& checkpoint, const TensorKey& key);

}  // namespace colibri
