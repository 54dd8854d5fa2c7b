// q8 and q4 matrices as CUDA's kernels read them: the panels of base/quantised.h in the same place
// and of the same size, their scales untouched, the codes in another order. Host code without CUDA.
//
// A warp multiplies one group (32 inputs k) of a panel (16 outputs) by one mma m16n8k32. Lane l,
// g = l / 4, q = l % 4, holds outputs g and g + 8 at inputs 8 q .. 8 q + 7 of the group (the sum
// over k is of integers, so any order of k serves when both factors have it):
//   q8  512 bytes a group: byte 16 l + 4 i + j is output g + 8 (i & 1), input 8 q + 4 (i >> 1) + j
//   q4  256 bytes a group: of lane l two words of four bytes, word i (0 or 1) for output g + 8 i,
//       byte j holding input 8 q + j in its low and 8 q + 4 + j in its high four bits, each a
//       code as two's complement. Groups go in pairs of 512 bytes: at 16 l the lane's two words of
//       the first, then of the second. An odd last group is alone: words at 8 l.
#pragma once

#include "base/quantised.h"

namespace colibri {

// Reorders the codes of the panels of a q8 or q4 matrix [rows, cols] from base/quantised.h's
// packing (`from`) to the GPU's (`to`): matrix_bytes(dtype, rows, cols) each. May be the same
// memory, else they must not overlap. Panels are independent: a matrix may be converted in runs of
// whole panels.
void pack_for_cuda(DType dtype, const void* from, int64_t rows, int64_t cols, void* to);

// The way back.
void unpack_from_cuda(DType dtype, const void* from, int64_t rows, int64_t cols, void* to);

}  // namespace colibri
