#include "kernels/cuda/packing.h"

#include <cstring>

#include "base/error.h"
#include "base/tensor_view.h"

namespace colibri {
namespace {

// Codes move in words of four bytes: word (b, row) of a group stands for inputs 4 b .. 4 b + 3 of
// one output, b = 0..7.
constexpr int64_t kBlocks = 8;
constexpr int64_t kQ8GroupWords = 128;
constexpr int64_t kQ4GroupWords = 64;
constexpr uint32_t kLowNibbles = 0x0F0F0F0Fu;
// The host keeps a q4 code as code + 8, CUDA as two's complement: the highest bit differs.
constexpr uint32_t kCodeForms = 0x88888888u;

enum class Direction { kToCuda, kFromCuda };

int64_t lane_of(int64_t block, int64_t row) { return row % 8 * 4 + block / 2; }

void copy_q8_group(const unsigned char* from, unsigned char* to, Direction direction) {
  uint32_t source[kQ8GroupWords], target[kQ8GroupWords];
  std::memcpy(source, from, sizeof source);
  for (int64_t b = 0; b < kBlocks; ++b) {
    for (int64_t row = 0; row < kPanelRows; ++row) {
      const int64_t host = b * kPanelRows + row;
      const int64_t cuda = 4 * lane_of(b, row) + row / 8 + 2 * (b % 2);
      if (direction == Direction::kToCuda) {
        target[cuda] = source[host];
      } else {
        target[host] = source[cuda];
      }
    }
  }
  std::memcpy(to, target, sizeof target);
}

// A word holds the nibbles of two blocks.
struct Pair {
  int64_t word, low_block, high_block;
};
Pair host_pair(int64_t i, int64_t row) { return {i * kPanelRows + row, i, i + 4}; }
Pair cuda_pair(int64_t i, int64_t row, int64_t lane_words) {
  return {lane_words * lane_of(2 * i, row) + row / 8, 2 * i, 2 * i + 1};
}

// One output of one group: four words each way.
void move_q4_output(const uint32_t* from, const Pair (&source)[4], uint32_t* to,
                    const Pair (&target)[4]) {
  uint32_t blocks[kBlocks];
  for (const Pair& pair : source) {
    blocks[pair.low_block] = from[pair.word] & kLowNibbles;
    blocks[pair.high_block] = from[pair.word] >> 4 & kLowNibbles;
  }
  for (const Pair& pair : target) {
    to[pair.word] = (blocks[pair.low_block] | blocks[pair.high_block] << 4) ^ kCodeForms;
  }
}

// `groups` (1 or 2) groups that lie together in CUDA's order.
void copy_q4_groups(const unsigned char* from, unsigned char* to, int64_t groups,
                    Direction direction) {
  uint32_t source[2 * kQ4GroupWords], target[2 * kQ4GroupWords];
  const auto bytes = static_cast<size_t>(groups * kQ4GroupWords) * sizeof(uint32_t);
  std::memcpy(source, from, bytes);
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t row = 0; row < kPanelRows; ++row) {
      Pair host[4], cuda[4];
      for (int64_t i = 0; i < 4; ++i) {
        host[i] = host_pair(i, row);
        host[i].word += g * kQ4GroupWords;
        cuda[i] = cuda_pair(i, row, 2 * groups);
        cuda[i].word += 2 * g;
      }
      if (direction == Direction::kToCuda) {
        move_q4_output(source, host, target, cuda);
      } else {
        move_q4_output(source, cuda, target, host);
      }
    }
  }
  std::memcpy(to, target, bytes);
}

struct PanelShape {
  DType dtype;
  int64_t cols;
};

void copy_panel(PanelShape shape, const unsigned char* from, unsigned char* to,
                Direction direction) {
  const int64_t scale_bytes = panel_scale_bytes(shape.cols), groups = shape.cols / kGroup;
  std::memmove(to, from, static_cast<size_t>(scale_bytes));
  from += scale_bytes;
  to += scale_bytes;
  if (shape.dtype == DType::kQ8) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t at = g * kQ8GroupWords * 4;
      copy_q8_group(from + at, to + at, direction);
    }
    return;
  }
  for (int64_t g = 0; g < groups; g += 2) {
    const int64_t at = g * kQ4GroupWords * 4;
    copy_q4_groups(from + at, to + at, groups - g == 1 ? 1 : 2, direction);
  }
}

void copy_matrix(const MatrixView& from, void* to, Direction direction) {
  if (!is_quantised(from.dtype)) {
    fail(ErrorKind::kInternal, "only q8 and q4 matrices have a packing of their own for CUDA");
  }
  const int64_t bytes = panel_bytes(from.dtype, from.cols);
  for (int64_t at = 0; at < from.size_bytes(); at += bytes) {
    copy_panel({from.dtype, from.cols}, static_cast<const unsigned char*>(from.data) + at,
               static_cast<unsigned char*>(to) + at, direction);
  }
}

}  // namespace

void pack_for_cuda(DType dtype, const void* from, int64_t rows, int64_t cols, void* to) {
  copy_matrix({from, dtype, rows, cols}, to, Direction::kToCuda);
}

void unpack_from_cuda(DType dtype, const void* from, int64_t rows, int64_t cols, void* to) {
  copy_matrix({from, dtype, rows, cols}, to, Direction::kFromCuda);
}

}  // namespace colibri
