#include "base/quantised.h"

#include <cstring>

#include "base/error.h"

namespace colibri {
namespace {

// Four rows stand side by side in the lanes of a vector that every x86-64 has.
constexpr int kLanes = 4;
constexpr int kPanelLanes = static_cast<int>(kPanelRows);
constexpr int kDepth = static_cast<int>(kGroup);
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using Group = Lanes[kDepth];

constexpr float kLargestF16 = 65504;

struct WideMatrix {
  const float* values;
  int64_t rows, cols;
};

inline Lanes all(float x) { return x - Lanes{}; }
// Nearest integers, ties to even, of |x| < 2^22.
inline Lanes round_even(const Lanes& x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
inline Lanes magnitude(const Lanes& x) { return x < 0 ? -x : x; }
inline Lanes clamped(const Lanes& x, const Lanes& low, const Lanes& high) {
  const Lanes above = x < low ? low : x;
  return above > high ? high : above;
}
// 1 / x, and 0 where that is not finite: weights under so small a scale are nothing beside others.
inline Lanes inverse_of(const Lanes& x) {
  const Lanes inverse = 1.0f / x;
  return inverse - inverse == 0 ? inverse : Lanes{};
}
inline bool all_at_most(const Lanes& x, float limit) {
  bool fits = true;
  for (int lane = 0; lane < kLanes; ++lane) fits = fits && x[lane] <= limit;  // NaN does not fit
  return fits;
}

// Rows [row, row + 4) of the matrix at input k; rows past the end are zero.
void load_group(const WideMatrix& wide, int64_t row, int64_t k, Group& x) {
  float turned[kDepth][kLanes] = {};
  for (int lane = 0; lane < kLanes && row + lane < wide.rows; ++lane) {
    const float* from = wide.values + (row + lane) * wide.cols + k;
    for (int i = 0; i < kDepth; ++i) turned[i][lane] = from[i];
  }
  std::memcpy(x, turned, sizeof turned);
}

// The value of largest magnitude in each lane, the first of equals; NaN where one is NaN.
void find_extremes(const Group& x, Lanes& extreme) {
  Lanes size = {}, check = {};
  extreme = Lanes{};
  for (const Lanes& value : x) {
    const Lanes its_size = magnitude(value);
    extreme = its_size > size ? value : extreme;
    size = its_size > size ? its_size : size;
    check += value - value;  // NaN for what is not finite
  }
  extreme += check;
}

// The f16 numbers nearest to `scale`, as bits and widened.
void round_scales(const Lanes& scale, uint16_t (&bits)[kLanes], Lanes& widened) {
  for (int lane = 0; lane < kLanes; ++lane) {
    bits[lane] = float_to_f16(scale[lane]);
    widened[lane] = f16_to_float(bits[lane]);
  }
}

void encode(const Group& x, const Lanes& inverse, float low, float high, Group& codes) {
  for (int i = 0; i < kDepth; ++i) {
    codes[i] = round_even(clamped(x[i] * inverse, all(low), all(high)));
  }
}

Lanes squared_error(const Group& x, const Group& codes, const Lanes& scale) {
  Lanes error = {};
  for (int i = 0; i < kDepth; ++i) {
    const Lanes off = x[i] - codes[i] * scale;
    error += off * off;
  }
  return error;
}

// Plain rounding: the largest magnitude becomes +-127.
bool encode_q8(const Group& x, uint16_t (&bits)[kLanes], Group& codes) {
  Lanes extreme, widened;
  find_extremes(x, extreme);
  const Lanes scale = magnitude(extreme) / 127.0f;
  if (!all_at_most(scale, kLargestF16)) return false;
  round_scales(scale, bits, widened);
  // Subnormal scales are coarse: one that would cut the largest value goes up a step.
  for (int lane = 0; lane < kLanes; ++lane) {
    if (widened[lane] * 127.5f < scale[lane] * 127.0f) widened[lane] = f16_to_float(++bits[lane]);
  }
  encode(x, inverse_of(widened), -127, 127, codes);
  return true;
}

// The extreme may fall on any code from about -7 to -10 (clamped to -8): fewer or more levels for
// the rest. Each try is judged by the share of the signal it explains with the scale that suits its
// codes best (least squares).
Lanes search_scales(const Group& x, const Lanes& extreme) {
  constexpr float kExtremeCodes[] = {8.0f, 7.2f,  7.45f, 7.7f, 7.95f, 8.2f, 8.45f,
                                     8.7f, 8.95f, 9.2f,  9.6f, 10.0f, 10.5f};
  Lanes best_scale = {}, best_share = all(-1);
  for (const float extreme_code : kExtremeCodes) {
    const Lanes inverse = inverse_of(extreme) * -extreme_code;
    Lanes cross = {}, square = {};
    for (const Lanes& value : x) {
      const Lanes code = round_even(clamped(value * inverse, all(-8), all(7)));
      cross += value * code;
      square += code * code;
    }
    const Lanes scale = square > 0 ? cross / square : Lanes{};
    const Lanes share = cross * scale;
    best_scale = share > best_share ? scale : best_scale;
    best_share = share > best_share ? share : best_share;
  }
  return best_scale;
}

// The better of plain rounding (the extreme becomes -8) and the searched scale, lane by lane.
bool encode_q4(const Group& x, uint16_t (&bits)[kLanes], Group& codes) {
  Lanes extreme, plain, searched;
  find_extremes(x, extreme);
  if (!all_at_most(magnitude(extreme) / 8.0f, kLargestF16)) return false;
  round_scales(extreme / -8.0f + 0.0f, bits, plain);  // + 0: a group of zeros has scale +0
  encode(x, inverse_of(plain), -8, 7, codes);

  uint16_t searched_bits[kLanes];
  Group searched_codes;
  round_scales(search_scales(x, extreme), searched_bits, searched);
  encode(x, inverse_of(searched), -8, 7, searched_codes);
  const auto is_better =
      squared_error(x, searched_codes, searched) < squared_error(x, codes, plain);
  for (int i = 0; i < kDepth; ++i) codes[i] = is_better ? searched_codes[i] : codes[i];
  for (int lane = 0; lane < kLanes; ++lane) {
    if (is_better[lane]) bits[lane] = searched_bits[lane];
  }
  return true;
}

void store_q8(const Group& codes, unsigned char* out) {
  for (int i = 0; i < kDepth; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      out[i / 4 * kPanelLanes * 4 + lane * 4 + i % 4] =
          static_cast<unsigned char>(static_cast<int8_t>(codes[i][lane]));
    }
  }
}

void store_q4(const Group& codes, unsigned char* out) {
  for (int i = 0; i < kDepth / 2; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int low = static_cast<int>(codes[i][lane]) + 8;
      const int high = static_cast<int>(codes[i + kDepth / 2][lane]) + 8;
      out[i / 4 * kPanelLanes * 4 + lane * 4 + i % 4] = static_cast<unsigned char>(low | high << 4);
    }
  }
}

// Code of input i of a group and row `lane`.
int code_of(DType dtype, const unsigned char* codes, int i, int lane) {
  if (dtype == DType::kQ8)
    return static_cast<int8_t>(codes[i / 4 * kPanelLanes * 4 + lane * 4 + i % 4]);
  const int half = i % (kDepth / 2);
  const unsigned char both = codes[half / 4 * kPanelLanes * 4 + lane * 4 + half % 4];
  return (i < kDepth / 2 ? both & 15 : both >> 4) - 8;
}

int64_t group_bytes(DType dtype) {
  return dtype == DType::kQ4 ? kPanelRows * kGroup / 2 : kPanelRows * kGroup;
}

// Rows [row, row + 4) into their lanes of the panel.
bool quantise_lanes(DType dtype, const WideMatrix& wide, int64_t row, unsigned char* panel) {
  const int64_t lane = row % kPanelRows;
  unsigned char* codes_out = panel + panel_scale_bytes(wide.cols) + lane * 4;
  for (int64_t k = 0; k < wide.cols; k += kGroup, codes_out += group_bytes(dtype)) {
    Group x, codes;
    uint16_t bits[kLanes];
    load_group(wide, row, k, x);
    const bool fits = dtype == DType::kQ8 ? encode_q8(x, bits, codes) : encode_q4(x, bits, codes);
    if (!fits) return false;
    const int64_t scale_idx = k / kGroup * kPanelRows + lane;
    std::memcpy(panel + scale_idx * static_cast<int64_t>(sizeof bits[0]), bits, sizeof bits);
    dtype == DType::kQ8 ? store_q8(codes, codes_out) : store_q4(codes, codes_out);
  }
  return true;
}

void check_shape(DType dtype, int64_t rows, int64_t cols) {
  check(is_quantised(dtype) && rows >= 0 && cols >= 0 && cols % kGroup == 0, "matrix [", rows, ", ",
        cols, "] cannot be ", to_string(dtype), ", want a multiple of ", kGroup, " columns");
}

}  // namespace

bool quantise_matrix(DType dtype, const float* wide, int64_t rows, int64_t cols, void* out) {
  check_shape(dtype, rows, cols);
  auto* panel = static_cast<unsigned char*>(out);
  for (int64_t row = 0; row < rows; row += kPanelRows, panel += panel_bytes(dtype, cols)) {
    std::memset(panel, 0, static_cast<size_t>(panel_scale_bytes(cols)));
    for (int64_t lane = 0; lane < kPanelRows; lane += kLanes) {
      if (!quantise_lanes(dtype, {wide, rows, cols}, row + lane, panel)) return false;
    }
  }
  return true;
}

void decode_matrix(DType dtype, const void* packed, int64_t rows, int64_t cols, float* out) {
  check_shape(dtype, rows, cols);
  for (int64_t row = 0; row < rows; ++row) {
    const auto* panel =
        static_cast<const unsigned char*>(packed) + row / kPanelRows * panel_bytes(dtype, cols);
    const int lane = static_cast<int>(row % kPanelRows);
    for (int64_t k = 0; k < cols; ++k) {
      const int64_t group = k / kGroup;
      uint16_t bits;
      std::memcpy(&bits, panel + (group * kPanelRows + lane) * 2, sizeof bits);
      const unsigned char* codes = panel + panel_scale_bytes(cols) + group * group_bytes(dtype);
      out[row * cols + k] =
          static_cast<float>(code_of(dtype, codes, static_cast<int>(k % kGroup), lane)) *
          f16_to_float(bits);
    }
  }
}

}  // namespace colibri
