// Rotary positions: the angles' cosines and sines, and the rotation in place. Both small, so bound
// by the launch; a thread takes one pair.
#include "base/series.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kRopeThreads = 128;

// As kernels/cpu/row_ops.cc computes it, which says why.
__device__ __forceinline__ SinCos sin_cos(double angle) {
  const double n = floor(angle * 0.63661977236758134308 + 0.5);
  double r = angle - n * 0x1.921fb544p+0;
  r = r - n * 0x1.0b4611a6p-34;
  r = r - n * 0x1.3198a2e037073p-69;
  const SinCos turn = sin_cos_series(r);
  const auto quarter = static_cast<int64_t>(n) & 3;
  if (quarter == 0) return turn;
  if (quarter == 1) return {turn.cos, -turn.sin};
  if (quarter == 2) return {-turn.sin, -turn.cos};
  return {-turn.cos, turn.sin};
}

__global__ void rope_angles_kernel(RopeAngles a) {
  const int64_t token = blockIdx.x;
  const int64_t i = static_cast<int64_t>(blockIdx.y) * kRopeThreads + threadIdx.x;
  if (i >= a.half_dim) return;
  const float angle = static_cast<float>(load(a.positions + token)) * load(a.inv_freq + i);
  const SinCos turn = sin_cos(static_cast<double>(angle));
  const auto scale = static_cast<double>(a.scale);
  store(a.cos + token * a.half_dim + i, static_cast<float>(turn.cos * scale));
  store(a.sin + token * a.half_dim + i, static_cast<float>(turn.sin * scale));
}

void rope_angles(const RopeAngles& a, cudaStream_t stream) {
  launch(rope_angles_kernel,
         {.blocks = dim3(blocks_for(a.num_tokens, 1), blocks_for(a.half_dim, kRopeThreads)),
          .threads = kRopeThreads,
          .stream = stream},
         a);
}

// One pair as it comes; `adjacent` pairs lie at an address aligned to both.
template <bool adjacent>
__device__ __forceinline__ void rotate(float* first, float* second, float cos, float sin) {
  Pack<float, 2> x;
  if constexpr (adjacent) {
    x = load(reinterpret_cast<const Pack<float, 2>*>(first));
  } else {
    x = {load(first), load(second)};
  }
  const Pack<float, 2> turned = {fma_exact(x.at[0], cos, -(x.at[1] * sin)),
                                 fma_exact(x.at[1], cos, x.at[0] * sin)};
  if constexpr (adjacent) {
    store(reinterpret_cast<Pack<float, 2>*>(first), turned);
  } else {
    store(first, turned.at[0]);
    store(second, turned.at[1]);
  }
}

template <bool adjacent>
__global__ void rope_kernel(Rope a) {
  const int64_t token = blockIdx.x;
  const int64_t pair = static_cast<int64_t>(blockIdx.y) * kRopeThreads + threadIdx.x;
  if (pair >= a.num_heads * a.half_dim) return;
  const int64_t head = pair / a.half_dim, i = pair % a.half_dim;
  float* x = a.x + token * a.stride + head * a.head_stride;
  const float cos = load(a.cos + token * a.half_dim + i);
  const float sin = load(a.sin + token * a.half_dim + i);
  float* first = a.interleaved ? x + 2 * i : x + i;
  rotate<adjacent>(first, a.interleaved ? first + 1 : first + a.half_dim, cos, sin);
}

void rope(const Rope& a, cudaStream_t stream) {
  const bool adjacent = a.interleaved && aligned_to(8, {a.x}, {a.stride * 4, a.head_stride * 4});
  launch(adjacent ? rope_kernel<true> : rope_kernel<false>,
         {.blocks =
              dim3(blocks_for(a.num_tokens, 1), blocks_for(a.num_heads * a.half_dim, kRopeThreads)),
          .threads = kRopeThreads,
          .stream = stream},
         a);
}

}  // namespace colibri::cuda
