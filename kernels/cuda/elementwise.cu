// Operations on single numbers: bound by memory, or by the launch for a decode step's few rows. A
// thread takes four numbers.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packs.cuh"

namespace colibri::cuda {

constexpr int kElementThreads = 256;
constexpr int kElementEach = 4;

struct Sigmoid {
  __device__ float operator()(float x, float) const {
    return divide(1.0f, one_plus_exp_of_minus(x));
  }
};
struct Sum {
  __device__ float operator()(float x, float y) const { return x + y; }
};
struct Clamp {
  float low, high;
  __device__ float operator()(float x, float) const {
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};
struct SiluTimes {
  __device__ float operator()(float gate, float up) const { return silu_times(gate, up); }
};

// out = f(x, y); y may be null.
template <class Function>
struct Pointwise {
  Function f = {};
  const float* x = nullptr;
  const float* y = nullptr;
  float* out = nullptr;
  int64_t count = 0;
};

template <class Function, bool aligned>
__global__ void pointwise_kernel(Pointwise<Function> a) {
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * kElementThreads + static_cast<int64_t>(threadIdx.x)) *
      kElementEach;
  if (first >= a.count) return;
  const int64_t left = a.count - first;
  auto x = load_pack<kElementEach, aligned>(a.x + first, left);
  Pack<float, kElementEach> y = {};
  if (a.y != nullptr) y = load_pack<kElementEach, aligned>(a.y + first, left);
  for (int i = 0; i < kElementEach; ++i) x.at[i] = a.f(x.at[i], y.at[i]);
  store_pack<kElementEach, aligned>(a.out + first, x, left);
}

template <class Function>
void pointwise(const Pointwise<Function>& a, cudaStream_t stream) {
  const bool aligned = aligned_to(16, {a.x, a.y, a.out}, {a.count * 4});
  launch(aligned ? pointwise_kernel<Function, true> : pointwise_kernel<Function, false>,
         {.blocks = blocks_for(a.count, kElementThreads * kElementEach),
          .threads = kElementThreads,
          .stream = stream},
         a);
}

void silu_mul(const SiluMul& a, cudaStream_t stream) {
  pointwise(Pointwise<SiluTimes>{.x = a.gate, .y = a.up, .out = a.out, .count = a.count}, stream);
}
void sigmoid(const Elementwise& a, cudaStream_t stream) {
  pointwise(Pointwise<Sigmoid>{.x = a.x, .out = a.x, .count = a.count}, stream);
}
void add(const Elementwise& a, cudaStream_t stream) {
  pointwise(Pointwise<Sum>{.x = a.x, .y = a.other, .out = a.x, .count = a.count}, stream);
}
void clamp(const Elementwise& a, cudaStream_t stream) {
  pointwise(Pointwise<Clamp>{.f = {a.low, a.high}, .x = a.x, .out = a.x, .count = a.count}, stream);
}

}  // namespace colibri::cuda
