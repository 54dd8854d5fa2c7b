#include "model/weight_loader.h"

#include <cstring>

#include "base/error.h"
#include "base/quantised.h"

namespace colibri {
namespace {

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

void narrow_to_bf16(const float* wide, size_t count, void* out) {
  auto* to = static_cast<uint16_t*>(out);
  for (size_t i = 0; i < count; ++i) to[i] = float_to_bf16(wide[i]);
}

void narrow(const TensorRange& range, DType kept, const float* wide, void* out) {
  const auto count = static_cast<size_t>(range.rows * range.cols);
  if (kept == DType::kBF16) return narrow_to_bf16(wide, count, out);
  if (range.cols % kGroup != 0) {
    fail(ErrorKind::kInput, "tensor \"", range.name, "\" is [", range.rows, ", ", range.cols,
         "]: its rows cannot be ", to_string(kept), ", which wants a multiple of ", kGroup,
         " values; use --weights bf16");
  }
  if (!quantise_matrix(kept, wide, range.rows, range.cols, out)) {
    fail(ErrorKind::kInput, "tensor \"", range.name,
         "\" holds a value that is not finite or too large for ", to_string(kept),
         "; the file is damaged, or use --weights bf16");
  }
}

}  // namespace

void load_range(const Checkpoint& checkpoint, const TensorRange& range, DType kept, void* out,
                Buffer& scratch) {
  if (kept == range.dtype) return checkpoint.read(range, out);
  if (is_quantised(range.dtype)) {
    fail(ErrorKind::kUnsupported, "tensor \"", range.name, "\" is stored as ",
         to_string(range.dtype), " and asked for as ", to_string(kept), "; leave --weights auto");
  }
  const size_t count = static_cast<size_t>(range.rows * range.cols);
  const size_t wide_offset = aligned(range.size_bytes);
  const bool via_float = kept != DType::kF32;
  scratch.reserve_discarding(wide_offset + (via_float ? count * sizeof(float) : 0));
  checkpoint.read(range, scratch.data());
  float* wide = via_float ? reinterpret_cast<float*>(scratch.as<char>() + wide_offset)
                          : static_cast<float*>(out);
  widen_to_float(range.dtype, scratch.data(), count, wide);
  if (via_float) narrow(range, kept, wide, out);
}

OwnedMatrix load_matrix(const Checkpoint& checkpoint, const TensorKey& key,
                        const WeightFormats& formats) {
  const TensorRange range = checkpoint.range(key);
  OwnedMatrix matrix;
  matrix.view = {nullptr, kept_dtype(key.role, range.dtype, formats), range.rows, range.cols};
  matrix.memory = Buffer(static_cast<size_t>(matrix.view.size_bytes()));
  matrix.view.data = matrix.memory.data();
  Buffer scratch;
  load_range(checkpoint, range, matrix.view.dtype, matrix.memory.data(), scratch);
  return matrix;
}

std::vector<float> load_floats(const Checkpoint& checkpoint, const TensorKey& key) {
  const TensorRange range = checkpoint.range(key);
  std::vector<float> values(static_cast<size_t>(range.rows * range.cols));
  Buffer scratch;
  load_range(checkpoint, range, DType::kF32, values.data(), scratch);
  return values;
}

}  // namespace colibri
