// The host's Ops: splits an operation into tasks for the stream's pool and gives each slice to the
// kernel table of one instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"

namespace colibri {

class CpuOps : public Ops {
 public:
  explicit CpuOps(const KernelTable& kernels) : kernels_(kernels) {}
  std::string name() const override { return std::string("cpu/") + kernels_.name; }
  void pack_weights(DType, int64_t, int64_t, void*) const override {}  // theirs is the CPU's order
  void embed(const EmbedRows&, Stream&) override;
  void rms_norm(const RmsNorm&, Stream&) override;
  void quantise_rows(const QuantiseRows&, Stream&) override;
  void round_rows(const RoundRows&, Stream&) override;
  void matmul(const MatMul&, Stream&) override;
  void batched_matmul(const BatchedMatMul&, Stream&) override;
  void rope_angles(const RopeAngles&, Stream&) override;
  void rope(const Rope&, Stream&) override;
  void kv_write(const KvWrite&, Stream&) override;
  int64_t attention_scratch_bytes(const Attention& largest, Stream&) override;
  void attention(const Attention&, Stream&) override;
  void route(const Route&, Stream&) override;
  void gather_rows(const GatherRows&, Stream&) override;
  void silu_mul(const SiluMul&, Stream&) override;
  void sigmoid(const Elementwise&, Stream&) override;
  void add(const Elementwise&, Stream&) override;
  void clamp(const Elementwise&, Stream&) override;
  void grouped_ffn(const GroupedFfn&, Stream&) override;
  void combine(const Combine&, Stream&) override;
  void pick_tokens(const PickTokens&, Stream&) override;
  void plan_dispatch(const PlanDispatch&, Stream&) override;
  void pack_rows(const PackRows&, Stream&) override;
  void group_pairs(const GroupPairs&, Stream&) override;
  void locate_results(const LocateResults&, Stream&) override;
  void mark_progress(const MarkProgress&, Stream&) override;

 private:
  const KernelTable& kernels_;
};

// Work is counted in multiply-adds, or numbers moved. Waking the pool costs microseconds, so a task
// is never smaller than this many.
inline constexpr int64_t kMinTaskWork = 1 << 17;

// How many tasks of at least kMinTaskWork `work` makes, at most per_thread a thread; 1 with one
// thread.
inline int64_t count_tasks(int64_t work, const ThreadPool& pool, int64_t per_thread = 8) {
  if (pool.num_threads() == 1) return 1;
  return std::clamp<int64_t>(work / kMinTaskWork, 1, per_thread * pool.num_threads());
}

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// pool.run without the allocation of a std::function: the body is passed by reference.
template <class Body>
void run_tasks(ThreadPool& pool, int64_t num_tasks, const Body& body) {
  if (num_tasks == 1) return body(0);
  pool.run(num_tasks, std::cref(body));
}

// Calls body(begin, end) on parts of [0, count) that are multiples of `unit` long (but for the
// last).
template <class Body>
void run_ranges(ThreadPool& pool, int64_t count, int64_t work_each, int64_t unit,
                const Body& body) {
  if (count == 0) return;
  const int64_t tasks = count_tasks(count * work_each, pool);
  const int64_t length = divide_up(divide_up(count, tasks), unit) * unit;
  run_tasks(pool, divide_up(count, length),
            [&](int64_t i) { body(i * length, std::min(count, (i + 1) * length)); });
}

}  // namespace colibri
