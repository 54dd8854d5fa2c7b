// The row message, coordinator -> worker, and the result message back: plain structs that both
// sides parse. docs/wire.md is the same in words.
//
//   row message     RowHeader | pair_begin int32 [num_rows + 1] | slot int32 [num_pairs]
//                   | padding to a multiple of 64, not read | payload [num_rows, H]
//   result message  RowHeader (kind kResults, num_rows == num_pairs) | payload [num_pairs, H]
//
// A row is one (token, destination rank) pair; pair_begin[i] .. pair_begin[i+1] are the slots it
// wants, each slot a number in the destination's own list for that layer. Results come back one a
// pair, in the order of the pairs. All integers little endian. `payload_dtype` names the form of
// the rows: f32, bf16, or i8 for rows of int8 codes and scales (base/quantised.h), which experts
// with quantised weights read; of results f32, or bf16 where GPUs keep their activations in bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/quantised.h"
#include "base/row_header.h"

namespace colibri {

// Bytes of one token's activations, or of one result. `dtype` is kF32, kBF16 or kI8.
inline int64_t token_row_bytes(DType dtype, int64_t width) {
  return dtype == DType::kI8 ? activation_row_bytes(width)
                             : width * static_cast<int64_t>(size_of(dtype));
}

// Offsets and total of a row message, out of one walk. Fails with kInternal for negative counts and
// past 2^62 bytes.
struct RowMessageLayout {
  size_t pair_begin, slots, payload, total_bytes;
};
RowMessageLayout row_message_layout(int64_t num_rows, int64_t num_pairs, int64_t row_bytes);

// A parsed row message; points into the message.
struct RowMessageView {
  const RowHeader* header = nullptr;
  std::span<const int32_t> pair_begin;  // [num_rows + 1]; results: empty
  std::span<const int32_t> slots;       // [num_pairs]; results: empty
  const std::byte* payload = nullptr;   // [num_rows, H], 64-byte aligned if the message is
};

// The header of the results that answer `request`: same layer and exchange, one row a pair of
// `dtype` (kF32 or kBF16), `payload_bytes` in all.
RowHeader results_header(const RowHeader& request, DType dtype, uint64_t payload_bytes);

// What a receiver knows and holds a message against.
struct RowExpectation {
  RowKind kind = RowKind::kRows;
  uint32_t epoch = 0;
  DType row_dtype = DType::kF32, result_dtype = DType::kF32;
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int64_t max_rows = 0, max_pairs = 0;  // results hold at most max_pairs rows
};

// Checks everything before use: size, magic, version, kind, type, epoch, source (rows come from the
// coordinator that asks), layer, counts, monotone pair_begin, slots >= 0; the upper bound of a slot
// is the worker's, which knows its list. Fails with kInput naming rank `from`, the field, what came
// and what was wanted. `message` must be 8-byte aligned (kInternal).
RowMessageView parse_row_message(std::span<const std::byte> message, int from,
                                 const RowExpectation& want);

}  // namespace colibri
