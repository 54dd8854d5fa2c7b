// Products: dense, one per head, and the experts' feed-forward. Tasks are blocks of outputs, and of
// rows where outputs are few; every output is the same DOT whatever the split.
#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

constexpr int64_t kOutputUnit = 16;  // smallest block of outputs worth a task
constexpr int64_t kRowUnit = 16;     // smallest block of rows worth a task

// A weight that is read for n rows costs about as much as a product over n + 3 rows: memory counts.
int64_t product_work(int64_t outputs, int64_t width, int64_t rows) {
  return outputs * width * (rows + 3) / 4;
}

// The part of `rows` that covers outputs [begin, end).
DotRows slice_outputs(DotRows rows, int64_t begin, int64_t end) {
  const int64_t element = rows.weight_is_bf16 ? 2 : 4;
  rows.weight = static_cast<const unsigned char*>(rows.weight) + begin * rows.width * element;
  if (rows.bias != nullptr) rows.bias += begin;
  rows.out += begin;
  rows.num_outputs = end - begin;
  return rows;
}

// The part of `rows` (which have plain strides) that covers rows [begin, end).
DotRows slice_rows(DotRows rows, int64_t begin, int64_t end) {
  rows.x += begin * rows.x_stride;
  rows.out += begin * rows.out_stride;
  rows.num_rows = end - begin;
  return rows;
}

// Splits [0, count) into about `parts` blocks of a multiple of `unit`.
struct Blocks {
  Blocks(int64_t total, int64_t parts, int64_t unit)
      : count(total),
        length(std::max(unit,
                        divide_up(divide_up(total, std::max<int64_t>(1, parts)), unit) * unit)) {}
  int64_t num() const { return divide_up(count, length); }
  int64_t begin(int64_t i) const { return i * length; }
  int64_t end(int64_t i) const { return std::min(count, (i + 1) * length); }
  int64_t count, length;
};

// num_heads products whose h-th is make(h), all of one shape.
template <class Make>
void run_products(const KernelTable& kernels, ThreadPool& pool, int64_t num_heads,
                  const Make& make) {
  const DotRows first = make(0);
  if (first.num_rows == 0 || first.num_outputs == 0) return;
  const int64_t work = product_work(first.num_outputs, first.width, first.num_rows);
  const int64_t wanted = divide_up(count_tasks(num_heads * work, pool), num_heads);
  const Blocks outputs(first.num_outputs, wanted, kOutputUnit);
  const Blocks rows(first.num_rows, divide_up(wanted, outputs.num()), kRowUnit);
  const int64_t tasks_per_head = outputs.num() * rows.num();
  const auto task = [&](int64_t i) {
    const int64_t part = i % tasks_per_head;
    const int64_t o = part / rows.num(), r = part % rows.num();
    const DotRows product = make(i / tasks_per_head);
    kernels.dot_rows(slice_outputs(slice_rows(product, rows.begin(r), rows.end(r)),
                                   outputs.begin(o), outputs.end(o)));
  };
  if (wanted == 1 && count_tasks(num_heads * work, pool) == 1) {
    for (int64_t i = 0; i < num_heads * tasks_per_head; ++i) task(i);
    return;
  }
  run_tasks(pool, num_heads * tasks_per_head, task);
}

// The blocks of one phase of the experts' feed-forward: group g's outputs fall into parts in
// proportion to its work, and task i is one part of one group.
class GroupTasks {
 public:
  GroupTasks(const GroupedFfn& a, int64_t outputs, int64_t width, const ThreadPool& pool)
      : a_(a), outputs_(outputs), width_(width) {
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
    return pairs(g) == 0 ? 0 : product_work(outputs_, width_, pairs(g));
  }
  Blocks blocks(int32_t g) const {
    const int64_t rows_exist = pairs(g) == 0 ? 0 : outputs_;
    return Blocks(rows_exist, work(g) / target_, kOutputUnit);
  }

  const GroupedFfn& a_;
  int64_t outputs_, width_, target_ = 1;
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

// Outputs [begin, end) of gate and up for every pair of a group, joined in the gate's place.
void gate_and_up(const KernelTable& kernels, const GroupedFfn& a, int32_t g, int64_t begin,
                 int64_t end) {
  const int64_t first = a.group_begin[g], pairs = a.group_begin[g + 1] - first;
  const ExpertWeights& expert = a.experts[g];
  float* gate = a.hidden + first * 2 * a.width;
  DotRows rows{.x = a.x,
               .x_row = a.pair_row + first,
               .x_stride = a.x_stride,
               .weight = expert.gate.data,
               .weight_is_bf16 = expert.gate.dtype == DType::kBF16,
               .out = gate,
               .out_stride = 2 * a.width,
               .num_rows = pairs,
               .num_outputs = a.width,
               .width = a.hidden_size};
  kernels.dot_rows(slice_outputs(rows, begin, end));
  rows.weight = expert.up.data;
  rows.weight_is_bf16 = expert.up.dtype == DType::kBF16;
  rows.out = gate + a.width;
  kernels.dot_rows(slice_outputs(rows, begin, end));
  for (int64_t p = 0; p < pairs; ++p) {
    float* row = gate + p * 2 * a.width + begin;
    kernels.silu_mul(row, row + a.width, row, end - begin);
  }
}

void down(const KernelTable& kernels, const GroupedFfn& a, int32_t g, int64_t begin, int64_t end) {
  const int64_t first = a.group_begin[g];
  const MatrixView& weight = a.experts[g].down;
  kernels.dot_rows(slice_outputs({.x = a.hidden + first * 2 * a.width,
                                  .x_stride = 2 * a.width,
                                  .weight = weight.data,
                                  .weight_is_bf16 = weight.dtype == DType::kBF16,
                                  .out = a.out,
                                  .out_offset = a.out_offset + first,
                                  .num_rows = a.group_begin[g + 1] - first,
                                  .num_outputs = a.hidden_size,
                                  .width = a.width},
                                 begin, end));
}

}  // namespace

void CpuOps::matmul(const MatMul& a, Stream& stream) {
  run_products(kernels_, host_pool(stream), 1, [&](int64_t) {
    return DotRows{.x = a.x,
                   .x_stride = a.x_stride,
                   .weight = a.weight.data,
                   .weight_is_bf16 = a.weight.dtype == DType::kBF16,
                   .bias = a.bias,
                   .out = a.out,
                   .out_stride = a.out_stride,
                   .num_rows = a.num_tokens,
                   .num_outputs = a.weight.rows,
                   .width = a.weight.cols};
  });
}

void CpuOps::batched_matmul(const BatchedMatMul& a, Stream& stream) {
  if (a.num_heads == 0) return;
  const int64_t outputs = a.weight.rows / a.num_heads;
  run_products(kernels_, host_pool(stream), a.num_heads, [&](int64_t h) {
    const MatrixView weight = a.weight.slice_rows(h * outputs, outputs);
    return DotRows{.x = a.x + h * a.x_head_stride,
                   .x_stride = a.x_stride,
                   .weight = weight.data,
                   .weight_is_bf16 = weight.dtype == DType::kBF16,
                   .out = a.out + h * a.out_head_stride,
                   .out_stride = a.out_stride,
                   .num_rows = a.num_tokens,
                   .num_outputs = outputs,
                   .width = weight.cols};
  });
}

void CpuOps::grouped_ffn(const GroupedFfn& a, Stream& stream) {
  ThreadPool& pool = host_pool(stream);
  run_group_tasks(
      GroupTasks(a, a.width, 2 * a.hidden_size, pool), pool,
      [&](int32_t g, int64_t begin, int64_t end) { gate_and_up(kernels_, a, g, begin, end); });
  run_group_tasks(GroupTasks(a, a.hidden_size, a.width, pool), pool,
                  [&](int32_t g, int64_t begin, int64_t end) { down(kernels_, a, g, begin, end); });
}

}  // namespace colibri
