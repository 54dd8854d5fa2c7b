// What one instruction set offers: a table of functions on slices of an operation. The sources
// behind it are compiled three times (portable, AVX2, AVX-512) from the same text, and give the
// same bits.
//
// An instruction set's translation unit sees only this header, intrinsics and .inc files, and keeps
// everything in an anonymous namespace: a weak symbol compiled for AVX-512 could be the copy the
// linker keeps, and end the program on an older processor. tests/kernels/isa_symbols.cmake proves
// it.
#pragma once

#include <cstdint>

#include "kernels/op_types.h"

namespace colibri {

// out[i, n] = DOT(row i of x, weight row n) (+ bias[n]). The shape of the blocks is the table's own
// choice; it never changes a bit.
struct DotRows {
  const float* x = nullptr;
  const int32_t* x_row = nullptr;  // [num_rows] or null (0, 1, 2, ...)
  int64_t x_stride = 0;
  const void* weight = nullptr;  // [num_outputs, width]
  bool weight_is_bf16 = false;
  const float* bias = nullptr;  // [num_outputs] or null
  float* out = nullptr;
  const int64_t* out_offset = nullptr;  // [num_rows], floats, or null (i * out_stride)
  int64_t out_stride = 0;
  int64_t num_rows = 0;
  int64_t num_outputs = 0;
  int64_t width = 0;
};

// out[i, n] = QDOT(row i of x, weight row n) (+ bias[n]). Sizes that base/quantised.h derives from
// types and widths are passed in, because its functions are not for these sources.
struct QdotRows {
  const void* x = nullptr;         // quantised rows, x_row_bytes apart
  const int32_t* x_row = nullptr;  // [num_rows] or null (0, 1, 2, ...)
  int64_t x_row_bytes = 0;
  const void* weight = nullptr;  // panels; the last may hold rows past num_outputs
  bool weight_is_q4 = false;
  int64_t panel_bytes = 0;
  int64_t panel_scale_bytes = 0;
  const float* bias = nullptr;  // [num_outputs] or null
  float* out = nullptr;
  const int64_t* out_offset = nullptr;  // [num_rows], floats, or null (i * out_stride)
  int64_t out_stride = 0;
  int64_t num_rows = 0;
  int64_t num_outputs = 0;
  int64_t width = 0;
};

// Most query rows (token, head) that one call of attend_tile takes.
inline constexpr int kMaxQueryRows = 32;

// One tile of keys and values against query rows of one kv head. Row r sees the tile's first
// limit[r] positions; a row with limit 0 is left alone.
struct AttendTile {
  const void* keys = nullptr;       // [kTile, key_dim]
  const void* values = nullptr;     // rows value_stride elements apart
  const void* next_keys = nullptr;  // of the tile that comes next, or null: asked for meanwhile
  bool is_bf16 = false;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t value_stride = 0;
  float scale = 1;
  // false: m, l and o receive the tile's own partial; true: it is merged into what they hold.
  bool merge = false;
  int num_rows = 0;
  const float* const* q = nullptr;  // [num_rows]
  const int32_t* limit = nullptr;   // [num_rows], each 0..kTile
  float* m = nullptr;               // [num_rows]
  float* l = nullptr;               // [num_rows]
  float* const* o = nullptr;        // [num_rows] pointers to value_dim floats
};

// Merges one row's partial of a later tile (m, l, o) into the running one.
struct MergePartial {
  float* running_m = nullptr;
  float* running_l = nullptr;
  float* running_o = nullptr;
  float m = 0;
  float l = 0;
  const float* o = nullptr;
  int64_t value_dim = 0;
};

struct KernelTable {
  const char* name;
  void (*dot_rows)(const DotRows&);
  void (*qdot_rows)(const QdotRows&);
  // `count` values, a multiple of 32, as QuantiseRows says.
  void (*quantise_groups)(const float* x, int8_t* codes, float* scales, int64_t count);
  void (*rms_norm)(const RmsNorm&, int64_t begin, int64_t end);  // rows
  void (*rope)(const Rope&, int64_t begin, int64_t end);         // tokens
  void (*silu_mul)(const float* gate, const float* up, float* out, int64_t count);
  void (*sigmoid)(const float* x, float* out, int64_t count);
  void (*softmax)(const float* x, float* out, int64_t count);
  void (*attend_tile)(const AttendTile&);
  void (*merge_partial)(const MergePartial&);
  void (*divide)(float* x, float divisor, int64_t count);
  void (*combine)(const Combine&, int64_t begin, int64_t end);  // tokens
  // The two functions everything above stands on, for tests.
  void (*exp)(const float* x, float* out, int64_t count);
  void (*fma)(const float* a, const float* b, const float* c, float* out, int64_t count);
};

const KernelTable& portable_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();

}  // namespace colibri
