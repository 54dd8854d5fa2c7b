// Dense products, and one per head. Tasks are blocks of outputs, and of rows where outputs are few;
// every output is the same sum whatever the split.
#include "kernels/cpu/products.h"

namespace colibri {
namespace {

constexpr int64_t kOutputUnit = kPanelRows;  // smallest block of outputs worth a task
constexpr int64_t kRowUnit = 16;             // smallest block of rows worth a task

// num_heads products whose h-th is make(h), all of one shape.
template <class Make>
void run_products(const KernelTable& kernels, ThreadPool& pool, int64_t num_heads,
                  const Make& make) {
  const auto first = make(0);
  if (first.num_rows == 0 || first.num_outputs == 0) return;
  const int64_t work = product_work(first.num_outputs, first.width, first.num_rows);
  const int64_t wanted = divide_up(count_tasks(num_heads * work, pool), num_heads);
  const Blocks outputs(first.num_outputs, wanted, kOutputUnit);
  const Blocks rows(first.num_rows, divide_up(wanted, outputs.num()), kRowUnit);
  const int64_t tasks_per_head = outputs.num() * rows.num();
  const auto task = [&](int64_t i) {
    const int64_t part = i % tasks_per_head;
    const int64_t o = part / rows.num(), r = part % rows.num();
    const auto product = make(i / tasks_per_head);
    run_product(kernels, slice_outputs(slice_rows(product, rows.begin(r), rows.end(r)),
                                       outputs.begin(o), outputs.end(o)));
  };
  if (wanted == 1 && count_tasks(num_heads * work, pool) == 1) {
    for (int64_t i = 0; i < num_heads * tasks_per_head; ++i) task(i);
    return;
  }
  run_tasks(pool, num_heads * tasks_per_head, task);
}

}  // namespace

void CpuOps::matmul(const MatMul& a, Stream& stream) {
  const auto finish = [&](auto product) {
    product.bias = a.bias;
    product.out = a.out;
    product.out_stride = a.out_stride;
    product.num_rows = a.num_tokens;
    run_products(kernels_, host_pool(stream), 1, [&](int64_t) { return product; });
  };
  if (is_quantised(a.weight.dtype)) {
    finish(quantised_product(a.x_quantised, a.weight));
  } else {
    finish(dot_product(a.x, a.x_stride, a.weight));
  }
}

void CpuOps::batched_matmul(const BatchedMatMul& a, Stream& stream) {
  if (a.num_heads == 0) return;
  const int64_t outputs = a.weight.rows / a.num_heads;
  const auto finish = [&](auto product, int64_t h) {
    product.out = a.out + h * a.out_head_stride;
    product.out_stride = a.out_stride;
    product.num_rows = a.num_tokens;
    return product;
  };
  const auto weight = [&](int64_t h) { return a.weight.slice_rows(h * outputs, outputs); };
  if (is_quantised(a.weight.dtype)) {
    run_products(kernels_, host_pool(stream), a.num_heads,
                 [&](int64_t h) { return finish(quantised_product(a.x_quantised, weight(h)), h); });
  } else {
    run_products(kernels_, host_pool(stream), a.num_heads, [&](int64_t h) {
      return finish(dot_product(a.x + h * a.x_head_stride, a.x_stride, weight(h)), h);
    });
  }
}

}  // namespace colibri
