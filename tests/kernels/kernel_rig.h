// What the kernel tests share: an instruction set with its pool, reproducible numbers, and the sums
// of the numeric contract written plainly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/thread_pool.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"
#include "tests/support/float_vectors.h"

namespace colibri {

// Operations of one instruction set on a pool of its own.
struct Rig {
  explicit Rig(Isa isa, int num_threads = 1);
  ThreadPool pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;
};

// The sets this processor has, portable first.
std::vector<Isa> available_isas();
const KernelTable& kernels_of(Isa isa);

// The experts' results in either form, each number a 7 before it is written.
template <class Out>
std::vector<Out> unwritten_results(GroupedFfn& op, size_t count) {
  constexpr bool is_float = sizeof(Out) == sizeof(float);
  std::vector<Out> out(count, static_cast<Out>(is_float ? 7 : 0x40E0));
  if constexpr (is_float) {
    op.out = out.data();
  } else {
    op.out_bf16 = out.data();
  }
  return out;
}

// Equal bits; "" or what differs first.
std::string difference(const std::vector<float>& got, const std::vector<float>& want);

// SUM's tree over sixteen chains.
float tree(const float (&chains)[16]);
// DOT with fmaf.
float plain_dot(const float* x, const float* w, int64_t count);
// The kernels' exp on one number (portable).
float kernel_exp(float x);

}  // namespace colibri
