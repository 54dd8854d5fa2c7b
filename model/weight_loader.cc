#include "model/weight_loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/quantised.h"

namespace colibri {
namespace {

// Rows are widened in pieces of about this many f32 bytes: a head of a gigabyte takes no second
// gigabyte to convert, and a piece stays in the cache between its steps.
constexpr int64_t kPieceBytes = 2 << 20;

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Four numbers side by side: what every x86-64 has, and what the compiler makes of others.
constexpr int kLanes = 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
using Halves = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t))));
using Masks = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

// As float_to_bf16.
void narrow_to_bf16(const float* wide, size_t count, void* out) {
  auto* to = static_cast<uint16_t*>(out);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Words bits;
    std::memcpy(&bits, wide + i, sizeof bits);
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Words nan = (bits >> 16) | 0x40u;
    const Words kept = (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
    const Halves halves = __builtin_convertvector(kept, Halves);
    std::memcpy(to + i, &halves, sizeof halves);
  }
  for (; i < count; ++i) to[i] = float_to_bf16(wide[i]);
}

// Whole panels of 16 rows, so that a quantised piece is a part of the quantised whole.
int64_t rows_of_a_piece(const TensorRange& range) {
  const int64_t row_bytes = std::max<int64_t>(1, range.cols) * static_cast<int64_t>(sizeof(float));
  const int64_t panels = std::max<int64_t>(1, kPieceBytes / row_bytes / kPanelRows);
  return std::max<int64_t>(1, std::min(range.rows, panels * kPanelRows));
}

[[noreturn]] void fail_value(const TensorRange& range, const char* what) {
  fail(ErrorKind::kInput, "tensor \"", range.name, "\" ", what,
       "; the file is damaged: download it again");
}

// values *= factor. False when a result is not finite.
bool scale_values(float* values, int64_t count, float factor) {
  Masks is_finite = ~Masks{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats x;
    std::memcpy(&x, values + i, sizeof x);
    x *= factor;
    is_finite &= x - x == 0;
    std::memcpy(values + i, &x, sizeof x);
  }
  bool all = true;
  for (int lane = 0; lane < kLanes; ++lane) all = all && is_finite[lane] != 0;
  for (; i < count; ++i) {
    values[i] *= factor;
    all = all && std::isfinite(values[i]);
  }
  return all;
}

// Multiplies rows [first, first + rows) by the scales of their blocks. False when a result is not
// finite.
bool apply_scales(const BlockScales& scales, const float* scale, int64_t cols, int64_t first,
                  int64_t rows, float* wide) {
  bool is_finite = true;
  for (int64_t row = 0; row < rows; ++row) {
    const float* of_row = scale + (first + row) / kScaleBlock * scales.cols;
    float* values = wide + row * cols;
    for (int64_t begin = 0; begin < cols; begin += kScaleBlock) {
      const int64_t count = std::min(kScaleBlock, cols - begin);
      is_finite = scale_values(values + begin, count, of_row[begin / kScaleBlock]) && is_finite;
    }
  }
  return is_finite;
}

// One tensor on its way into memory, piece by piece.
class PieceReader {
 public:
  // Scratch is laid out as block scales (f32), stored bytes of a piece, f32 values of a piece.
  PieceReader(const Checkpoint& checkpoint, const TensorRange& range, Buffer& scratch)
      : checkpoint_(checkpoint), range_(range), piece_rows_(rows_of_a_piece(range)) {
    const BlockScales& scales = range.scales;
    const size_t scales_bytes = aligned(static_cast<size_t>(scales.rows * scales.cols) * 4);
    const auto piece_values = static_cast<size_t>(piece_rows_ * range.cols);
    const size_t stored_bytes =
        aligned(std::max(piece_values * size_of(range.dtype), size_t{scales.size_bytes}));
    scratch.reserve_discarding(scales_bytes + stored_bytes + piece_values * sizeof(float));
    scales_ = scratch.as<float>();
    stored_ = scratch.as<char>() + scales_bytes;
    wide_ = reinterpret_cast<float*>(stored_ + stored_bytes);
    if (!scales.empty()) read_scales();
  }

  int64_t piece_rows() const { return piece_rows_; }
  float* wide() { return wide_; }

  // Rows [first, first + rows), rows at most piece_rows(), widened into `out`.
  void read(int64_t first, int64_t rows, float* out) {
    const uint64_t row_bytes = static_cast<uint64_t>(range_.cols) * size_of(range_.dtype);
    TensorRange piece = range_;
    piece.offset_bytes += static_cast<uint64_t>(first) * row_bytes;
    piece.size_bytes = static_cast<uint64_t>(rows) * row_bytes;
    checkpoint_.read(piece, stored_);
    widen_to_float(range_.dtype, stored_, static_cast<size_t>(rows * range_.cols), out);
    if (range_.dtype != DType::kF8E4M3) return;
    if (!apply_scales(range_.scales, scales_, range_.cols, first, rows, out)) {
      fail_value(range_, "holds an FP8 value that is not a number, or too large when scaled");
    }
  }

 private:
  void read_scales() {
    const auto count = static_cast<size_t>(range_.scales.rows * range_.scales.cols);
    checkpoint_.read_scales(range_, stored_);
    widen_to_float(range_.scales.dtype, stored_, count, scales_);
    const bool is_finite =
        std::all_of(scales_, scales_ + count, [](float scale) { return std::isfinite(scale); });
    if (!is_finite) fail_value(range_, "has a block scale (\"..._scale_inv\") that is not finite");
  }

  const Checkpoint& checkpoint_;
  const TensorRange& range_;
  int64_t piece_rows_;
  float* scales_ = nullptr;
  char* stored_ = nullptr;
  float* wide_ = nullptr;
};

void check_can_be(const TensorRange& range, DType kept) {
  if (is_quantised(range.dtype)) {
    fail(ErrorKind::kUnsupported, "tensor \"", range.name, "\" is stored as ",
         to_string(range.dtype), " and asked for as ", to_string(kept), "; leave --weights auto");
  }
  if (is_quantised(kept) && range.cols % kGroup != 0) {
    fail(ErrorKind::kInput, "tensor \"", range.name, "\" is [", range.rows, ", ", range.cols,
         "]: its rows cannot be ", to_string(kept), ", which wants a multiple of ", kGroup,
         " values; use --weights bf16");
  }
}

void narrow(const TensorRange& range, DType kept, const float* wide, int64_t rows, void* out) {
  if (kept == DType::kBF16) {
    return narrow_to_bf16(wide, static_cast<size_t>(rows * range.cols), out);
  }
  if (quantise_matrix(kept, wide, rows, range.cols, out)) return;
  fail(ErrorKind::kInput, "tensor \"", range.name,
       "\" holds a value that is not finite or too large for ", to_string(kept),
       "; the file is damaged, or use --weights bf16");
}

}  // namespace

void load_range(const Checkpoint& checkpoint, const TensorRange& range, DType kept, void* out,
                Buffer& scratch) {
  if (kept == range.dtype) return checkpoint.read(range, out);
  check_can_be(range, kept);
  PieceReader reader(checkpoint, range, scratch);
  for (int64_t first = 0; first < range.rows; first += reader.piece_rows()) {
    const int64_t rows = std::min(reader.piece_rows(), range.rows - first);
    char* to = static_cast<char*>(out) + matrix_bytes(kept, first, range.cols);
    if (kept == DType::kF32) {
      reader.read(first, rows, reinterpret_cast<float*>(to));
    } else {
      reader.read(first, rows, reader.wide());
      narrow(range, kept, reader.wide(), rows, to);
    }
  }
}

TensorRange row_slice(const TensorRange& range, int64_t first, int64_t num_rows) {
  check(first % kScaleBlock == 0 && first >= 0 && num_rows >= 0 && first + num_rows <= range.rows,
        "rows ", first, " + ", num_rows, " of ", range.rows);
  TensorRange slice = range;
  slice.rows = num_rows;
  slice.offset_bytes += static_cast<uint64_t>(matrix_bytes(range.dtype, first, range.cols));
  slice.size_bytes = static_cast<uint64_t>(matrix_bytes(range.dtype, num_rows, range.cols));
  if (range.scales.empty()) return slice;
  const uint64_t scale_row_bytes =
      static_cast<uint64_t>(range.scales.cols) * size_of(range.scales.dtype);
  slice.scales.rows = (num_rows + kScaleBlock - 1) / kScaleBlock;
  slice.scales.offset_bytes += static_cast<uint64_t>(first / kScaleBlock) * scale_row_bytes;
  slice.scales.size_bytes = static_cast<uint64_t>(slice.scales.rows) * scale_row_bytes;
  return slice;
}

std::vector<float> load_floats(const Checkpoint& checkpoint, const TensorKey& key) {
  const TensorRange range = checkpoint.range(key);
  std::vector<float> values(static_cast<size_t>(range.rows * range.cols));
  Buffer scratch;
  load_range(checkpoint, range, DType::kF32, values.data(), scratch);
  return values;
}

}  // namespace colibri
