#include "model/weight_loader.h"

#include <cstring>

#include "base/error.h"

namespace colibri {
namespace {

void narrow_to_bf16(const float* wide, size_t count, uint16_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float_to_bf16(wide[i]);
}

}  // namespace

WeightFormat parse_weight_format(const std::string& text) {
  if (text == "auto") return WeightFormat::kAsStored;
  if (text == "f32") return WeightFormat::kF32;
  if (text == "bf16") return WeightFormat::kBF16;
  if (text == "q8" || text == "q4") {
    fail(ErrorKind::kUnsupported, "--weights ", text,
         " is not supported yet; want auto, f32 or bf16");
  }
  fail(ErrorKind::kInput, "--weights is '", text, "', want auto, f32 or bf16");
}

DType kept_dtype(DType stored, WeightFormat format) {
  switch (format) {
    case WeightFormat::kAsStored:
      return stored == DType::kBF16 ? DType::kBF16 : DType::kF32;
    case WeightFormat::kF32:
      return DType::kF32;
    case WeightFormat::kBF16:
      return DType::kBF16;
  }
  fail(ErrorKind::kInternal, "WeightFormat value ", static_cast<int>(format));
}

void load_range(const Checkpoint& checkpoint, const TensorRange& range, WeightFormat format,
                void* out, Buffer& scratch) {
  const DType kept = kept_dtype(range.dtype, format);
  if (kept == range.dtype) {
    checkpoint.read(range, out);
    return;
  }
  const size_t count = static_cast<size_t>(range.rows * range.cols);
  const size_t wide_offset = (range.size_bytes + 63) / 64 * 64;
  const bool via_float = kept == DType::kBF16;
  scratch.reserve_discarding(wide_offset + (via_float ? count * sizeof(float) : 0));
  checkpoint.read(range, scratch.data());
  if (!via_float) {
    widen_to_float(range.dtype, scratch.data(), count, static_cast<float*>(out));
    return;
  }
  auto* wide = reinterpret_cast<float*>(scratch.as<char>() + wide_offset);
  widen_to_float(range.dtype, scratch.data(), count, wide);
  narrow_to_bf16(wide, count, static_cast<uint16_t*>(out));
}

OwnedMatrix load_matrix(const Checkpoint& checkpoint, const TensorKey& key, WeightFormat format) {
  const TensorRange range = checkpoint.range(key);
  OwnedMatrix matrix;
  matrix.view = {nullptr, kept_dtype(range.dtype, format), range.rows, range.cols};
  matrix.memory = Buffer(static_cast<size_t>(matrix.view.size_bytes()));
  matrix.view.data = matrix.memory.data();
  Buffer scratch;
  load_range(checkpoint, range, format, matrix.memory.data(), scratch);
  return matrix;
}

std::vector<float> load_floats(const Checkpoint& checkpoint, const TensorKey& key) {
  const TensorRange range = checkpoint.range(key);
  std::vector<float> values(static_cast<size_t>(range.rows * range.cols));
  Buffer scratch;
  load_range(checkpoint, range, WeightFormat::kF32, values.data(), scratch);
  return values;
}

}  // namespace colibri
