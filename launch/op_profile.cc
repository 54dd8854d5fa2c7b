#include "launch/op_profile.h"

#include <algorithm>
#include <vector>

#include "base/quantised.h"

namespace colibri {
namespace {

constexpr double kFloat = sizeof(float);

double numbers(int64_t a, int64_t b = 1) { return static_cast<double>(a) * static_cast<double>(b); }

// Bytes of the rows that a product reads.
double row_bytes(const MatMul& op) {
  const int64_t width = op.weight.cols;
  if (op.x_quantised != nullptr) return static_cast<double>(activation_row_bytes(width));
  return static_cast<double>(width) * (op.x_bf16 != nullptr ? 2.0 : kFloat);
}

}  // namespace

const char* to_string(OpGroup kind) {
  switch (kind) {
    case OpGroup::kDense:
      return "dense products";
    case OpGroup::kExperts:
      return "experts";
    case OpGroup::kAttention:
      return "attention";
    case OpGroup::kExchange:
      return "exchange";
    case OpGroup::kRows:
      return "row operations";
  }
  return "unknown";
}

ProfiledOps::ProfiledOps(std::unique_ptr<Ops> ops, Device& device, size_t filler_bytes)
    : ops_(std::move(ops)),
      device_(device),
      filler_(device, filler_bytes),
      start_(device.make_timed_event()),
      end_(device.make_timed_event()) {}

void ProfiledOps::start() {
  profile_ = {};
  is_on_ = true;
}

OpProfile ProfiledOps::stop() {
  is_on_ = false;
  return profile_;
}

template <class Args>
void ProfiledOps::run(OpGroup kind, Member<Args> member, const Args& args, const Cost& cost,
                      Stream& stream) {
  if (!is_on_) return (ops_.get()->*member)(args, stream);
  device_.zero(filler_.data(), filler_.size_bytes(), stream);
  device_.record(*start_, stream);
  (ops_.get()->*member)(args, stream);
  device_.record(*end_, stream);
  device_.synchronize(*end_);
  OpTotals& totals = profile_[static_cast<size_t>(kind)];
  ++totals.num_calls;
  totals.us += device_.elapsed_us(*start_, *end_);
  totals.bytes += cost.bytes;
  totals.flops += cost.flops;
}

template <class T>
std::vector<T> ProfiledOps::fetch(const T* data, int64_t count, Stream& stream) {
  std::vector<T> copy(static_cast<size_t>(count));
  device_.copy(copy.data(), data, copy.size() * sizeof(T), stream);
  stream.synchronize();
  return copy;
}

ProfiledOps::Cost ProfiledOps::cost_of(const GroupedFfn& op, Stream& stream) {
  if (!is_on_ || op.num_groups == 0) return {};
  const std::vector<int32_t> begin = fetch(op.group_begin, op.num_groups + 1, stream);
  int64_t num_used = 0;
  for (size_t g = 0; g + 1 < begin.size(); ++g) num_used += begin[g + 1] > begin[g] ? 1 : 0;
  const int64_t pairs = begin.back() - begin.front();
  const int64_t weights = 2 * matrix_bytes(op.weight_dtype, op.width, op.hidden_size) +
                          matrix_bytes(op.weight_dtype, op.hidden_size, op.width);
  const double result = op.out_bf16 != nullptr ? 2.0 : kFloat;
  const double rows = numbers(pairs, op.hidden_size + 4 * op.width) * kFloat +
                      numbers(pairs, op.hidden_size) * result;
  return {numbers(num_used, weights) + rows, 6 * numbers(pairs, op.hidden_size * op.width)};
}

ProfiledOps::Cost ProfiledOps::cost_of(const Attention& op, Stream& stream) {
  if (!is_on_ || op.num_tokens == 0) return {};
  const std::vector<KvRow> rows = fetch(op.rows, op.num_tokens, stream);
  const double each = static_cast<double>(op.layout.page_bytes()) / kTile;
  Cost cost;
  int64_t longest = 0;  // context of the sequence that consecutive tokens share
  for (size_t t = 0; t < rows.size(); ++t) {
    const int64_t context = rows[t].position + 1;
    longest = std::max(longest, context);
    cost.flops += 2 * numbers(context, op.num_heads * (op.layout.key_dim + op.layout.value_dim));
    if (t + 1 < rows.size() && rows[t + 1].pages == rows[t].pages) continue;
    cost.bytes += static_cast<double>(longest) * each;
    longest = 0;
  }
  cost.bytes +=
      numbers(op.num_tokens, op.num_heads * (op.layout.key_dim + op.layout.value_dim)) * kFloat;
  return cost;
}

void ProfiledOps::matmul(const MatMul& op, Stream& stream) {
  const MatrixView& w = op.weight;
  const Cost cost{static_cast<double>(w.size_bytes()) +
                      static_cast<double>(op.num_tokens) * row_bytes(op) +
                      numbers(op.num_tokens, w.rows) * kFloat,
                  2 * numbers(op.num_tokens, w.rows * w.cols)};
  run(OpGroup::kDense, &Ops::matmul, op, cost, stream);
}

void ProfiledOps::batched_matmul(const BatchedMatMul& op, Stream& stream) {
  const MatrixView& w = op.weight;
  const Cost cost{static_cast<double>(w.size_bytes()) +
                      numbers(op.num_tokens, op.num_heads * w.cols + w.rows) * kFloat,
                  2 * numbers(op.num_tokens, w.rows * w.cols)};
  run(OpGroup::kDense, &Ops::batched_matmul, op, cost, stream);
}

void ProfiledOps::grouped_ffn(const GroupedFfn& op, Stream& stream) {
  run(OpGroup::kExperts, &Ops::grouped_ffn, op, cost_of(op, stream), stream);
}

void ProfiledOps::attention(const Attention& op, Stream& stream) {
  run(OpGroup::kAttention, &Ops::attention, op, cost_of(op, stream), stream);
}

void ProfiledOps::combine(const Combine& op, Stream& stream) {
  const double rows = (op.shared != nullptr ? 3 : 2) * kFloat;
  const double results = static_cast<double>(op.top_k) * (op.results_bf16 != nullptr ? 2 : kFloat);
  run(OpGroup::kExchange, &Ops::combine, op,
      {(rows + results) * numbers(op.num_tokens, op.hidden_size),
       2 * numbers(op.num_tokens, op.hidden_size * op.top_k)},
      stream);
}

// What travels or is sorted is counted on the device alone: times, no bytes.
void ProfiledOps::plan_dispatch(const PlanDispatch& op, Stream& stream) {
  run(OpGroup::kExchange, &Ops::plan_dispatch, op, {}, stream);
}
void ProfiledOps::pack_rows(const PackRows& op, Stream& stream) {
  run(OpGroup::kExchange, &Ops::pack_rows, op, {}, stream);
}
void ProfiledOps::group_pairs(const GroupPairs& op, Stream& stream) {
  run(OpGroup::kExchange, &Ops::group_pairs, op, {}, stream);
}
void ProfiledOps::locate_results(const LocateResults& op, Stream& stream) {
  run(OpGroup::kExchange, &Ops::locate_results, op,
      {numbers(op.num_tokens, op.top_k) * (sizeof(int32_t) + sizeof(int64_t)), 0}, stream);
}
void ProfiledOps::mark_progress(const MarkProgress& op, Stream& stream) {
  run(OpGroup::kExchange, &Ops::mark_progress, op, {}, stream);
}

void ProfiledOps::embed(const EmbedRows& op, Stream& stream) {
  const double read = static_cast<double>(matrix_bytes(op.table.dtype, 1, op.table.cols));
  run(OpGroup::kRows, &Ops::embed, op,
      {static_cast<double>(op.num_tokens) * (read + numbers(op.table.cols) * kFloat), 0}, stream);
}
void ProfiledOps::rms_norm(const RmsNorm& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::rms_norm, op, {2 * numbers(op.num_rows, op.width) * kFloat, 0}, stream);
}
void ProfiledOps::quantise_rows(const QuantiseRows& op, Stream& stream) {
  const double out = static_cast<double>(activation_row_bytes(op.width));
  run(OpGroup::kRows, &Ops::quantise_rows, op,
      {static_cast<double>(op.num_rows) * (numbers(op.width) * kFloat + out), 0}, stream);
}
void ProfiledOps::round_rows(const RoundRows& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::round_rows, op, {numbers(op.num_rows, op.width) * (kFloat + 2), 0},
      stream);
}
void ProfiledOps::rope_angles(const RopeAngles& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::rope_angles, op, {2 * numbers(op.num_tokens, op.half_dim) * kFloat, 0},
      stream);
}
void ProfiledOps::rope(const Rope& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::rope, op,
      {4 * numbers(op.num_tokens, op.num_heads * op.half_dim) * kFloat, 0}, stream);
}
void ProfiledOps::kv_write(const KvWrite& op, Stream& stream) {
  const KvLayout& l = op.layout;
  const int64_t width = l.num_kv_heads * (l.key_dim + (l.shared_value ? 0 : l.value_dim));
  run(OpGroup::kRows, &Ops::kv_write, op,
      {numbers(op.num_tokens, width) * (kFloat + static_cast<double>(size_of(l.dtype))), 0},
      stream);
}
void ProfiledOps::route(const Route& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::route, op,
      {numbers(op.num_tokens, op.knobs.num_experts + 2 * op.knobs.top_k) * kFloat, 0}, stream);
}
void ProfiledOps::gather_rows(const GatherRows& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::gather_rows, op, {2 * numbers(op.num_rows, op.width) * kFloat, 0},
      stream);
}
void ProfiledOps::silu_mul(const SiluMul& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::silu_mul, op, {3 * numbers(op.count) * kFloat, 0}, stream);
}
void ProfiledOps::sigmoid(const Elementwise& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::sigmoid, op, {2 * numbers(op.count) * kFloat, 0}, stream);
}
void ProfiledOps::add(const Elementwise& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::add, op, {3 * numbers(op.count) * kFloat, 0}, stream);
}
void ProfiledOps::clamp(const Elementwise& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::clamp, op, {2 * numbers(op.count) * kFloat, 0}, stream);
}
void ProfiledOps::pick_tokens(const PickTokens& op, Stream& stream) {
  run(OpGroup::kRows, &Ops::pick_tokens, op, {numbers(op.num_rows, op.vocabulary) * kFloat, 0},
      stream);
}

}  // namespace colibri
