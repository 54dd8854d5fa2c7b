#include "tests/support/reference_ops.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/quantised.h"

namespace colibri {
namespace {

struct Row {
  std::vector<int> codes;     // [width]
  std::vector<float> scales;  // [width / 32]
};

// Row n of a packed matrix.
Row weight_row(const MatrixView& w, int64_t n) {
  const auto* panel =
      static_cast<const unsigned char*>(w.data) + n / kPanelRows * panel_bytes(w.dtype, w.cols);
  const auto* codes = panel + panel_scale_bytes(w.cols);
  const int64_t row = n % kPanelRows;
  Row result;
  for (int64_t g = 0; g < w.cols / kGroup; ++g) {
    uint16_t scale = 0;
    std::memcpy(&scale, panel + (g * kPanelRows + row) * 2, sizeof scale);
    result.scales.push_back(f16_to_float(scale));
    for (int64_t k = 0; k < kGroup; ++k) {
      if (w.dtype == DType::kQ8) {
        const int64_t at = g * kGroup * kPanelRows + k / 4 * kPanelRows * 4 + row * 4 + k % 4;
        result.codes.push_back(static_cast<signed char>(codes[at]));
      } else {
        const int64_t half = k % 16;
        const int64_t at = g * 16 * kPanelRows + half / 4 * kPanelRows * 4 + row * 4 + half % 4;
        result.codes.push_back((k < 16 ? codes[at] & 15 : codes[at] >> 4) - 8);
      }
    }
  }
  return result;
}

Row activation_row(const void* rows, int64_t row, int64_t width) {
  const auto* bytes = static_cast<const signed char*>(rows) + row * activation_row_bytes(width);
  Row result;
  result.codes.assign(bytes, bytes + width);
  result.scales.resize(static_cast<size_t>(width / kGroup));
  std::memcpy(result.scales.data(), bytes + width, result.scales.size() * sizeof(float));
  return result;
}

float qdot(const Row& w, const Row& a) {
  float acc = 0;
  for (size_t g = 0; g < w.scales.size(); ++g) {
    int64_t sum = 0;
    for (size_t k = g * kGroup; k < (g + 1) * kGroup; ++k) sum += int64_t{w.codes[k]} * a.codes[k];
    acc = std::fmaf(static_cast<float>(sum), w.scales[g] * a.scales[g], acc);
  }
  return acc;
}

void quantise_row(const float* x, int64_t width, void* out) {
  auto* codes = static_cast<signed char*>(out);
  for (int64_t g = 0; g < width / kGroup; ++g) {
    const float* group = x + g * kGroup;
    float largest = 0;
    bool is_finite = true;
    for (int64_t k = 0; k < kGroup; ++k) {
      is_finite = is_finite && std::isfinite(group[k]);
      largest = std::fmax(largest, std::fabs(group[k]));
    }
    const bool is_zero = !is_finite || largest < 0x1p-100f;
    float scale = is_zero ? 0.0f : largest / 127.0f;
    if (!is_finite) scale = std::numeric_limits<float>::quiet_NaN();
    for (int64_t k = 0; k < kGroup; ++k) {
      const float code = is_zero ? 0.0f : std::nearbyint(group[k] * (127.0f / largest));
      codes[g * kGroup + k] = static_cast<signed char>(code);
    }
    std::memcpy(codes + width + g * 4, &scale, sizeof scale);
  }
}

class ReferenceOps : public Ops {
 public:
  std::string name() const override { return "cpu/reference"; }
  void pack_weights(DType, int64_t, int64_t, void*) const override {}

  void quantise_rows(const QuantiseRows& op, Stream&) override {
    auto* out = static_cast<unsigned char*>(op.out);
    for (int64_t row = 0; row < op.num_rows; ++row) {
      quantise_row(op.x + row * op.x_stride, op.width, out + row * activation_row_bytes(op.width));
    }
  }

  void matmul(const MatMul& op, Stream& stream) override {
    if (!is_quantised(op.weight.dtype)) return portable_->matmul(op, stream);
    check(op.x == nullptr && op.x_quantised != nullptr, "quantised weights take quantised rows");
    const std::vector<Row> rows = rows_of(op.x_quantised, op.num_tokens, op.weight.cols);
    for (int64_t n = 0; n < op.weight.rows; ++n) {
      const Row w = weight_row(op.weight, n);
      for (int64_t t = 0; t < op.num_tokens; ++t) {
        float& out = op.out[t * op.out_stride + n];
        out = qdot(w, rows[static_cast<size_t>(t)]);
        if (op.bias != nullptr) out += op.bias[n];
      }
    }
  }

  void batched_matmul(const BatchedMatMul& op, Stream& stream) override {
    if (!is_quantised(op.weight.dtype)) return portable_->batched_matmul(op, stream);
    const int64_t rows_a_head = op.weight.rows / op.num_heads;
    for (int64_t head = 0; head < op.num_heads; ++head) {
      matmul({.x = op.x,
              .x_quantised = op.x_quantised,
              .weight = op.weight.slice_rows(head * rows_a_head, rows_a_head),
              .out = op.out + head * op.out_head_stride,
              .num_tokens = op.num_tokens,
              .out_stride = op.out_stride},
             stream);
    }
  }

  void grouped_ffn(const GroupedFfn& op, Stream& stream) override {
    if (!is_quantised(op.weight_dtype)) {
      return portable_->grouped_ffn(op, stream);
    }
    check(op.x == nullptr && op.x_quantised != nullptr, "quantised experts take quantised rows");
    check(op.out != nullptr, "results are f32 here");
    for (int32_t g = 0; g < op.num_groups; ++g) {
      for (int32_t p = op.group_begin[g]; p < op.group_begin[g + 1]; ++p) {
        run_pair(op, op.experts[g], p, stream);
      }
    }
  }

  void embed(const EmbedRows& op, Stream& s) override { portable_->embed(op, s); }
  void rms_norm(const RmsNorm& op, Stream& s) override { portable_->rms_norm(op, s); }
  void round_rows(const RoundRows& op, Stream& s) override { portable_->round_rows(op, s); }
  void rope_angles(const RopeAngles& op, Stream& s) override { portable_->rope_angles(op, s); }
  void rope(const Rope& op, Stream& s) override { portable_->rope(op, s); }
  void kv_write(const KvWrite& op, Stream& s) override { portable_->kv_write(op, s); }
  int64_t attention_scratch_bytes(const Attention& op, Stream& s) override {
    return portable_->attention_scratch_bytes(op, s);
  }
  void attention(const Attention& op, Stream& s) override { portable_->attention(op, s); }
  void route(const Route& op, Stream& s) override { portable_->route(op, s); }
  void gather_rows(const GatherRows& op, Stream& s) override { portable_->gather_rows(op, s); }
  void silu_mul(const SiluMul& op, Stream& s) override { portable_->silu_mul(op, s); }
  void sigmoid(const Elementwise& op, Stream& s) override { portable_->sigmoid(op, s); }
  void add(const Elementwise& op, Stream& s) override { portable_->add(op, s); }
  void clamp(const Elementwise& op, Stream& s) override { portable_->clamp(op, s); }
  void combine(const Combine& op, Stream& s) override { portable_->combine(op, s); }
  void pick_tokens(const PickTokens& op, Stream& s) override { portable_->pick_tokens(op, s); }
  void plan_dispatch(const PlanDispatch& op, Stream& s) override {
    portable_->plan_dispatch(op, s);
  }
  void pack_rows(const PackRows& op, Stream& s) override { portable_->pack_rows(op, s); }
  void group_pairs(const GroupPairs& op, Stream& s) override { portable_->group_pairs(op, s); }
  void locate_results(const LocateResults& op, Stream& s) override {
    portable_->locate_results(op, s);
  }
  void mark_progress(const MarkProgress& op, Stream& s) override {
    portable_->mark_progress(op, s);
  }

 private:
  static std::vector<Row> rows_of(const void* quantised, int64_t num_rows, int64_t width) {
    std::vector<Row> rows;
    for (int64_t row = 0; row < num_rows; ++row) {
      rows.push_back(activation_row(quantised, row, width));
    }
    return rows;
  }

  static void multiply(const MatrixView& weight, const Row& a, float* out) {
    for (int64_t n = 0; n < weight.rows; ++n) out[n] = qdot(weight_row(weight, n), a);
  }

  void run_pair(const GroupedFfn& op, const ExpertWeights& expert, int32_t pair, Stream& stream) {
    const Row x = activation_row(op.x_quantised, op.pair_row[pair], op.hidden_size);
    std::vector<float> gate(static_cast<size_t>(op.width)), up(gate.size());
    multiply(expert.gate, x, gate.data());
    multiply(expert.up, x, up.data());
    portable_->silu_mul({gate.data(), up.data(), gate.data(), op.width}, stream);
    std::vector<unsigned char> hidden(static_cast<size_t>(activation_row_bytes(op.width)));
    quantise_row(gate.data(), op.width, hidden.data());
    multiply(expert.down, activation_row(hidden.data(), 0, op.width), op.out + op.out_offset[pair]);
  }

  std::unique_ptr<Ops> portable_ = make_cpu_ops(Isa::kPortable);
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace colibri
