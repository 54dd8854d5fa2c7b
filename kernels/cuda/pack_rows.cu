// Row messages: blocks go along the rows of one rank, along a row, and over the ranks. Bound by
// memory: a thread moves 16 bytes where the rows allow it. Only the device knows how many rows a
// rank gets, so there are blocks for every token and surplus ones leave after two loads.
#include <cstring>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kPackThreads = 128;
constexpr int kPackEach = 4;  // words of 4 bytes a thread
constexpr int64_t kPayloadAlignment = 64;

// One rank's message and what the plan says of it.
struct OpenMessage {
  unsigned char* base;
  MessagePlace place;
  int32_t first_row, num_rows;
};

__device__ __forceinline__ int32_t* begins_of(const OpenMessage& message) {
  return reinterpret_cast<int32_t*>(message.base + sizeof(RowHeader));
}
__device__ __forceinline__ int32_t* slots_of(const OpenMessage& message) {
  return begins_of(message) + message.place.max_rows + 1;
}
__device__ __forceinline__ unsigned char* payload_of(const OpenMessage& message) {
  const int64_t front =
      reinterpret_cast<unsigned char*>(slots_of(message) + message.place.max_pairs) - message.base;
  return message.base + (front + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

// By one thread.
__device__ __forceinline__ void write_header(const PackRows& a, const OpenMessage& message,
                                             int32_t num_pairs) {
  RowHeader header = a.header;
  header.num_rows = message.num_rows;
  header.num_pairs = num_pairs;
  header.payload_bytes = static_cast<uint64_t>(message.place.max_rows * a.row_bytes);
  uint64_t words[sizeof(RowHeader) / sizeof(uint64_t)];
  memcpy(words, &header, sizeof header);
  for (int i = 0; i < static_cast<int>(sizeof(RowHeader) / sizeof(uint64_t)); ++i) {
    store(reinterpret_cast<uint64_t*>(message.base) + i, words[i]);
  }
}

// Begin and slots of row i; the header and the end of the begins go with the first row's block,
// which there is even when no row is.
__device__ __forceinline__ void write_front(const PackRows& a, const OpenMessage& message,
                                            int32_t i) {
  const bool leads = threadIdx.x == 0;
  const int32_t first_pair = load(a.pair_begin + message.first_row);
  if (i == 0 && leads) {
    const int32_t end = load(a.pair_begin + message.first_row + message.num_rows);
    write_header(a, message, end - first_pair);
    if (message.num_rows <= message.place.max_rows) {
      store(begins_of(message) + message.num_rows, end - first_pair);
    }
  }
  if (i >= message.num_rows || i > message.place.max_rows) return;
  const int32_t* begin = a.pair_begin + message.first_row + i;
  const int32_t pair = load(begin) - first_pair, end = load(begin + 1) - first_pair;
  if (leads) store(begins_of(message) + i, pair);
  if (i == message.place.max_rows) return;
  for (int32_t p = pair + static_cast<int32_t>(threadIdx.x); p < end; p += kPackThreads) {
    if (p < message.place.max_pairs) store(slots_of(message) + p, load(a.slot + first_pair + p));
  }
}

template <bool aligned>
__global__ void pack_rows_kernel(PackRows a) {
  const auto rank = static_cast<int32_t>(blockIdx.z), i = static_cast<int32_t>(blockIdx.x);
  if (rank == a.skip_rank) return;
  const int32_t first_row = load(a.row_begin + rank);
  const int32_t num_rows = load(a.row_begin + rank + 1) - first_row;
  if (i > 0 && i >= num_rows) return;
  const MessagePlace place = {load(&a.places[rank].offset_bytes), load(&a.places[rank].max_rows),
                              load(&a.places[rank].max_pairs)};
  const OpenMessage message = {static_cast<unsigned char*>(a.messages) + place.offset_bytes, place,
                               first_row, num_rows};
  if (blockIdx.y == 0) write_front(a, message, i);
  const int64_t width = a.row_bytes / 4;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kPackThreads + threadIdx.x) * kPackEach;
  if (i >= num_rows || i >= place.max_rows || column >= width) return;
  const auto* from =
      static_cast<const uint32_t*>(a.tokens) + load(a.row_token + first_row + i) * width + column;
  auto* to = reinterpret_cast<uint32_t*>(payload_of(message)) + i * width + column;
  store_pack<kPackEach, aligned>(to, load_pack<kPackEach, aligned>(from, width - column),
                                 width - column);
}

void pack_rows(const PackRows& a, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.tokens, a.messages}, {a.row_bytes});
  launch(aligned ? pack_rows_kernel<true> : pack_rows_kernel<false>,
         {.blocks =
              dim3(blocks_for(a.max_rows, 1), blocks_for(a.row_bytes, kPackThreads * kPackEach * 4),
                   static_cast<unsigned int>(a.num_ranks)),
          .threads = kPackThreads,
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
