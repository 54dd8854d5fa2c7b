// Draws tokens: one block a row. The row is cut into stretches whose first candidates lie in shared
// memory; then one warp takes the best of them K times, and looks through the winner's stretch for
// the next. One pass over the logits, then K rounds of a few hundred numbers: bound by latency.
#include "base/series.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/token_candidate.cuh"

namespace colibri::cuda {

constexpr int kDrawWarps = 16;
constexpr int kStretches = 512;
constexpr int32_t kNoToken = 0x7FFFFFFF;

struct DrawMemory {
  double weight[kMaxDrawnTopK];
  int32_t id[kMaxDrawnTopK];
  float head_logit[kStretches];
  int32_t head_id[kStretches];
};

// As base/exp.h computes it, which says why; x is never NaN here.
__device__ __forceinline__ double exp_of_negative(double x) {
  if (x < -700) return 0;
  const double n = floor(x * 1.4426950408889634074 + 0.5);
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  const auto bits = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return exp_series(r) * power;
}

struct DrawRow {
  const float* logits;
  int64_t vocabulary;
  int64_t stretch;  // logits of one
};

// The first candidate of a stretch that comes after `last`; whole warps.
__device__ __forceinline__ TokenCandidate next_of_stretch(const DrawRow& row, int64_t stretch,
                                                          const TokenCandidate& last) {
  const int64_t begin = stretch * row.stretch, left = row.vocabulary - begin;
  const int64_t count = left < row.stretch ? left : row.stretch;
  TokenCandidate best = {float_from_bits(0xFF800000u), kNoToken};
  for (int64_t i = threadIdx.x; i < count; i += kWarpSize) {
    const TokenCandidate one = {load(row.logits + begin + i), static_cast<int32_t>(begin + i)};
    if (comes_before(last, one)) take_better(best, one);
  }
  return best_of_lanes(best);
}

__device__ __forceinline__ void put_head(DrawMemory& memory, int64_t stretch,
                                         const TokenCandidate& head) {
  if (threadIdx.x != 0) return;
  store_shared(memory.head_logit + stretch, head.logit);
  store_shared(memory.head_id + stretch, head.id);
}

// Lists up to `top_k` tokens, the most likely first, with their logits as weights; their number.
__device__ __forceinline__ int list_tokens(const DrawRow& row, int32_t top_k, DrawMemory& memory) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int k = 0; k < top_k; ++k) {
    TokenCandidate best = {float_from_bits(0xFF800000u), kNoToken};
    for (int i = lane; i < kStretches; i += kWarpSize) {
      take_better(best, {load_shared(memory.head_logit + i), load_shared(memory.head_id + i)});
    }
    best = best_of_lanes(best);
    if (best.id == kNoToken) return k;
    if (lane == 0) {
      store_shared(memory.weight + k, static_cast<double>(best.logit));
      store_shared(memory.id + k, best.id);
    }
    const int64_t stretch = best.id / row.stretch;
    __syncwarp();
    put_head(memory, stretch, next_of_stretch(row, stretch, best));
    __syncwarp();
  }
  return top_k;
}

__device__ __forceinline__ double total_weight(const DrawMemory& memory, int count) {
  double total = 0;
  for (int k = 0; k < count; ++k) total = total + load_shared(memory.weight + k);
  return total;
}

// By one thread, in the order of the list, as the sum's order is part of the result.
__device__ __forceinline__ int32_t draw_from(const TokenDraw& draw, const DrawMemory& memory,
                                             int count) {
  if (draw.top_p < 1) {
    const double wanted = static_cast<double>(draw.top_p) * total_weight(memory, count);
    double sum = 0;
    int kept = 0;
    while (kept < count && sum < wanted) sum = sum + load_shared(memory.weight + kept++);
    count = kept > 1 ? kept : 1;
  }
  const double least = static_cast<double>(draw.min_p) * load_shared(memory.weight);
  while (count > 1 && load_shared(memory.weight + count - 1) < least) --count;
  double left = draw.unit * total_weight(memory, count);
  for (int k = 0; k < count; ++k) {
    left = left - load_shared(memory.weight + k);
    if (left < 0) return load_shared(memory.id + k);
  }
  return load_shared(memory.id + count - 1);
}

__device__ __forceinline__ TokenDraw load_draw(const TokenDraw* draw) {
  return {load(&draw->unit), load(&draw->top_k), load(&draw->temperature), load(&draw->top_p),
          load(&draw->min_p)};
}

__global__ void draw_tokens_kernel(PickTokens a) {
  auto& memory = shared_as<DrawMemory>();
  const int64_t at = blockIdx.x;
  const TokenDraw draw = load_draw(a.draws + at);
  if (draw.top_k == 0 || load(a.ids + at) < 0) return;
  const DrawRow row = {a.logits + at * a.stride, a.vocabulary,
                       (a.vocabulary + kStretches - 1) / kStretches};
  const TokenCandidate before_all = {float_from_bits(0x7F800000u), -1};
  for (int64_t s = threadIdx.y; s < kStretches; s += kDrawWarps) {
    put_head(memory, s, next_of_stretch(row, s, before_all));
  }
  __syncthreads();
  if (threadIdx.y > 0) return;
  const int count = list_tokens(row, draw.top_k, memory);
  const auto temperature = static_cast<double>(draw.temperature);
  const double top = load_shared(memory.weight) / temperature;
  __syncwarp();
  for (int k = static_cast<int>(threadIdx.x); k < count; k += kWarpSize) {
    const double weight = exp_of_negative(load_shared(memory.weight + k) / temperature - top);
    store_shared(memory.weight + k, weight);
  }
  __syncwarp();
  if (threadIdx.x == 0) store(a.ids + at, draw_from(draw, memory, count));
}

void draw_tokens(const PickTokens& a, cudaStream_t stream) {
  launch(draw_tokens_kernel,
         {.blocks = blocks_for(a.num_rows, 1),
          .threads = dim3(kWarpSize, kDrawWarps),
          .shared_bytes = sizeof(DrawMemory),
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
