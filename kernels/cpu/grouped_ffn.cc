// The experts' feed-forward: gate and up joined, then down. Tasks are blocks of outputs of one
// expert; every output is the same sum whatever the split.
#include "base/dtype.h"
#include "kernels/cpu/products.h"

namespace colibri {
namespace {

// Gate and up in whole groups: the task that made a group's values quantises them.
constexpr int64_t kHiddenUnit = kGroup;
constexpr int64_t kOutputUnit = kPanelRows;

// The blocks of one phase: group g's outputs fall into parts in proportion to its work, and task i
// is one part of one group.
class GroupTasks {
 public:
  struct Shape {
    int64_t outputs, width, unit;
  };
  GroupTasks(const GroupedFfn& a, Shape shape, const ThreadPool& pool) : a_(a), shape_(shape) {
    int64_t total = 0;
    for (int32_t g = 0; g < a.num_groups; ++g) total += work(g);
    is_small_ = count_tasks(total, pool) == 1;
    target_ = std::max<int64_t>(1, total / count_tasks(total, pool));
  }
  bool is_small() const { return is_small_; }
  int64_t count() const {
    int64_t tasks = 0;
    for (int32_t g = 0; g < a_.num_groups; ++g) tasks += blocks(g).num();
    return tasks;
  }
  // Calls body(group, begin, end) for the outputs of task i.
  template <class Body>
  void visit(int64_t i, const Body& body) const {
    for (int32_t g = 0; g < a_.num_groups; ++g) {
      const Blocks parts = blocks(g);
      if (i < parts.num()) return body(g, parts.begin(i), parts.end(i));
      i -= parts.num();
    }
  }

 private:
  int64_t pairs(int32_t g) const { return a_.group_begin[g + 1] - a_.group_begin[g]; }
  int64_t work(int32_t g) const {
    return pairs(g) == 0 ? 0 : product_work(shape_.outputs, shape_.width, pairs(g));
  }
  Blocks blocks(int32_t g) const {
    const int64_t rows_exist = pairs(g) == 0 ? 0 : shape_.outputs;
    return Blocks(rows_exist, work(g) / target_, shape_.unit);
  }

  const GroupedFfn& a_;
  Shape shape_;
  int64_t target_ = 1;
  bool is_small_ = false;
};

template <class Body>
void run_group_tasks(const GroupTasks& tasks, ThreadPool& pool, const Body& body) {
  const auto task = [&](int64_t i) { tasks.visit(i, body); };
  const int64_t count = tasks.count();
  if (tasks.is_small()) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  run_tasks(pool, count, task);
}

// Outputs [begin, end) of one expert.
struct Part {
  int32_t group;
  int64_t begin, end;
};

void run_gate_or_up(const KernelTable& kernels, const GroupedFfn& a, const Part& part,
                    const MatrixView& weight, float* out) {
  const int64_t first = a.group_begin[part.group];
  const auto finish = [&](auto product) {
    product.x_row = a.pair_row + first;
    product.out = out;
    product.out_stride = 2 * a.width;
    product.num_rows = a.group_begin[part.group + 1] - first;
    run_product(kernels, slice_outputs(product, part.begin, part.end));
  };
  if (is_quantised(weight.dtype)) {
    finish(quantised_product(a.x_quantised, weight));
  } else {
    finish(dot_product(a.x, a.x_stride, weight));
  }
}

// Gate and up for every pair of a group, joined in the gate's place.
void gate_and_up(const KernelTable& kernels, const GroupedFfn& a, const Part& part) {
  const int64_t first = a.group_begin[part.group];
  const ExpertWeights& expert = a.experts[part.group];
  float* gate = a.hidden + first * 2 * a.width;
  run_gate_or_up(kernels, a, part, expert.gate, gate);
  run_gate_or_up(kernels, a, part, expert.up, gate + a.width);
  const bool quantises = is_quantised(expert.down.dtype);
  for (int64_t p = first; p < a.group_begin[part.group + 1]; ++p) {
    float* row = a.hidden + p * 2 * a.width + part.begin;
    kernels.silu_mul(row, row + a.width, row, part.end - part.begin);
    if (!quantises) continue;
    int8_t* codes = static_cast<int8_t*>(a.hidden_quantised) + p * activation_row_bytes(a.width);
    float* scales = reinterpret_cast<float*>(codes + a.width);
    kernels.quantise_groups(row, codes + part.begin, scales + part.begin / kGroup,
                            part.end - part.begin);
  }
}

// Outputs [begin, end) of a product, rounded to bf16 and written to the pairs' places from `out`
// on. Blocks of f32 sums lie on the stack until then.
template <class Product>
void run_rounded(const KernelTable& kernels, const Product& product, const Part& part,
                 uint16_t* out, const int64_t* out_offset) {
  constexpr int64_t kRows = 64;
  float sums[kRows * kPanelRows];
  for (int64_t n = part.begin; n < part.end; n += kPanelRows) {
    const int64_t end = std::min(part.end, n + kPanelRows);
    for (int64_t r = 0; r < product.num_rows; r += kRows) {
      Product block = slice_weights(product, n, end);
      skip_rows(block, r);
      block.num_rows = std::min(kRows, product.num_rows - r);
      block.out = sums;
      block.out_stride = kPanelRows;
      run_product(kernels, block);
      for (int64_t i = 0; i < block.num_rows; ++i) {
        uint16_t* to = out + out_offset[r + i] + n;
        for (int64_t o = 0; o < end - n; ++o) to[o] = float_to_bf16(sums[i * kPanelRows + o]);
      }
    }
  }
}

void down(const KernelTable& kernels, const GroupedFfn& a, const Part& part) {
  const int64_t first = a.group_begin[part.group];
  const MatrixView& weight = a.experts[part.group].down;
  const auto finish = [&](auto product) {
    product.num_rows = a.group_begin[part.group + 1] - first;
    if (a.out_bf16 != nullptr) {
      return run_rounded(kernels, product, part, a.out_bf16, a.out_offset + first);
    }
    product.out = a.out;
    product.out_offset = a.out_offset + first;
    run_product(kernels, slice_outputs(product, part.begin, part.end));
  };
  if (is_quantised(weight.dtype)) {
    const auto* hidden = static_cast<const unsigned char*>(a.hidden_quantised);
    finish(quantised_product(hidden + first * activation_row_bytes(a.width), weight));
  } else {
    finish(dot_product(a.hidden + first * 2 * a.width, 2 * a.width, weight));
  }
}

}  // namespace

void CpuOps::grouped_ffn(const GroupedFfn& a, Stream& stream) {
  ThreadPool& pool = host_pool(stream);
  const int64_t unit = is_quantised(a.weight_dtype) ? kHiddenUnit : kOutputUnit;
  run_group_tasks(GroupTasks(a, {a.width, 2 * a.hidden_size, unit}, pool), pool,
                  [&](int32_t g, int64_t begin, int64_t end) {
                    gate_and_up(kernels_, a, {g, begin, end});
                  });
  run_group_tasks(GroupTasks(a, {a.hidden_size, a.width, kOutputUnit}, pool), pool,
                  [&](int32_t g, int64_t begin, int64_t end) {
                    down(kernels_, a, {g, begin, end});
                  });
}

}  // namespace colibri
