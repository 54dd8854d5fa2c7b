// The arguments of every operation of the forward pass: plain structs, filled by name, the same for
// CPU and CUDA. Only plain types here, because the sources compiled for one instruction set include
// this header (kernels/cpu/kernel_table.h).
//
// Rules for all operations
//   * Arrays are raw pointers with their shapes beside them, in the place of the backend (host for
//     the CPU, the GPU's memory for CUDA), and so are arrays of pointers and what they point to.
//     Row-major, rows contiguous unless a stride is given. Letters: docs/shapes.md.
//   * Nothing is allocated; scratch is passed in. In and out never overlap unless said.
//   * Work is enqueued on `stream`; on the host it is done when the call returns.
//   * num_tokens == 0 is legal and does nothing.
//   * A row's result never depends on the other rows of the call, nor on the number of rows,
//     threads or the instruction set (docs/design.md, section 5). Which NaN comes out is not fixed.
//   * DOT means: both rows padded with +0 to a multiple of sixteen; sixteen chains, chain j takes
//     the products k = j, j + 16, j + 32, ... by fma in ascending order starting from +0; then
//     s8[j] = c[j] + c[j + 8] (j < 8), s4[j] = s8[j] + s8[j + 4], s2[j] = s4[j] + s4[j + 2],
//     s = s2[0] + s2[1].
//   * SUM means the same tree over chains of additions.
//   * QDOT is the product of a quantised row a and a q8 or q4 weight row w (base/quantised.h): from
//     acc = +0, groups of 32 ascending, acc = fma(float(sum of the 32 integer products of codes),
//     scale_w * scale_a, acc), the product of the scales rounded to f32.
//   * Quantised weights take quantised rows, others f32 rows, or bf16 rows where the backend keeps
//     its activations in bf16 (CUDA; the weights are then bf16 too). Pointers of the other kinds
//     are null.
//   * A product of bf16 rows sums in f32 in an order of its own, the same for every number of rows.
// Arguments are checked by the caller that made the plan; operations check nothing per element.
#pragma once

#include <cstdint>

#include "base/tensor_view.h"

namespace colibri {

// A row of `table`, widened to f32, for each id. table [V, H] f32 or bf16, ids [T] -> out [T, H].
struct EmbedRows {
  MatrixView table;
  const int32_t* ids = nullptr;
  float* out = nullptr;
  int64_t num_tokens = 0;
};

// out = (x * (1 / sqrt(mean + eps))) * weight over rows of `width`, mean = DOT(x, x) / width;
// square root and divisions are the exactly rounded f32 ones. x may equal out (with equal strides).
// Rows are `x_stride` floats apart (out likewise `out_stride`), so that heads inside a projection
// can be normed in place. weight [width] f32.
struct RmsNorm {
  const float* x = nullptr;
  const float* weight = nullptr;
  float* out = nullptr;
  int64_t num_rows = 0;
  int64_t width = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  float eps = 0;
};

// Rows of x [S, K] f32, x_stride floats apart, as int8 codes and f32 scales: out has rows of
// activation_row_bytes(K), one after the other, 4-byte aligned. K is a multiple of 32. Per group of
// 32: m = max |x|, inverse = 127 / m and scale = m / 127, both rounded to f32; code = the f32
// product x * inverse rounded to the nearest integer, ties to even (never past +-127). A group with
// m < 2^-100 has scale and codes 0; one that holds a value that is not finite has scale NaN and
// codes 0, so that every product with it is NaN.
struct QuantiseRows {
  const float* x = nullptr;
  void* out = nullptr;
  int64_t num_rows = 0;
  int64_t width = 0;
  int64_t x_stride = 0;
};

// Rows of x [S, K] f32, x_stride floats apart, rounded to bf16 (nearest, ties to even): out [S, K].
struct RoundRows {
  const float* x = nullptr;
  uint16_t* out = nullptr;
  int64_t num_rows = 0;
  int64_t width = 0;
  int64_t x_stride = 0;
};

// out[t, n] = DOT(x[t, :], weight[n, :]) (+ bias[n]). weight [N, K] f32 or bf16, x [T, K] f32,
// bias [N] f32 or null. Rows of x and out lie x_stride and out_stride floats apart.
// With a q8 or q4 weight: QDOT(x_quantised[t], weight row n) (+ bias[n]), rows of
// activation_row_bytes(K) one after the other. Rows of x_bf16 [T, K] lie one after the other too.
struct MatMul {
  const float* x = nullptr;
  const void* x_quantised = nullptr;
  const uint16_t* x_bf16 = nullptr;
  MatrixView weight;
  const float* bias = nullptr;
  float* out = nullptr;
  int64_t num_tokens = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
};

// `num_heads` products of equal shape, one a head: out[t, h, n] = DOT(x[t, h, :], weight[h, n, :]).
// x [T, heads, K] with rows x_stride apart and heads x_head_stride apart; out likewise. weight is
// [heads * N, K], head h its rows [h N, (h+1) N). For the absorbed form of latent attention.
// With a q8 or q4 weight (N a multiple of 16) all heads take the one row x_quantised[t].
struct BatchedMatMul {
  const float* x = nullptr;
  const void* x_quantised = nullptr;
  MatrixView weight;
  float* out = nullptr;
  int64_t num_tokens = 0;
  int64_t num_heads = 0;
  int64_t x_stride = 0, x_head_stride = 0;
  int64_t out_stride = 0, out_head_stride = 0;
};

// cos and sin of position * inv_freq, each scaled by `scale` (yarn's attention factor):
// positions [T], inv_freq [D/2] f32 -> cos, sin [T, D/2]. The angle is the f32 product, the
// functions are evaluated in double and rounded once.
struct RopeAngles {
  const int32_t* positions = nullptr;
  const float* inv_freq = nullptr;
  float* cos = nullptr;
  float* sin = nullptr;
  int64_t num_tokens = 0;
  int64_t half_dim = 0;
  float scale = 1;
};

// Rotates, in place, the first 2 * half_dim values of each head. Pairs are (i, i + half_dim), or
// (2i, 2i + 1) when `interleaved` (which keeps the pairs where they are).
//   a' = fma(a, cos, -(b * sin)),  b' = fma(b, cos, a * sin)
struct Rope {
  float* x = nullptr;  // [T, heads, ...], rows stride floats apart, heads head_stride apart
  const float* cos = nullptr;
  const float* sin = nullptr;  // [T, half_dim]
  int64_t num_tokens = 0;
  int64_t num_heads = 0;
  int64_t half_dim = 0;
  int64_t stride = 0, head_stride = 0;
  bool interleaved = false;
};

// Where keys and values lie. A page holds kTile consecutive positions of one sequence in one layer,
// [kv_heads, kTile, key_dim] keys, then [kv_heads, kTile, value_dim] values; with `shared_value`
// (latent attention) there are no separate values: a value is the first value_dim numbers of the
// key. Unused slots are zero. Element type `dtype` (f32 or bf16).
inline constexpr int kTile = 64;
struct KvLayout {
  DType dtype = DType::kF32;
  int64_t num_kv_heads = 1;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  bool shared_value = false;

  int64_t page_elements() const {
    return num_kv_heads * kTile * (key_dim + (shared_value ? 0 : value_dim));
  }
  int64_t page_bytes() const { return page_elements() * static_cast<int64_t>(size_of(dtype)); }
};

// One token's view of its sequence: its page table and its own position.
struct KvRow {
  const int32_t* pages = nullptr;  // page of positions [64 i, 64 i + 64): an index into the pool
  int32_t position = 0;
};

// Rounds keys and values to the layout's dtype and stores them at each token's position.
// keys [T, kv_heads, key_dim], values [T, kv_heads, value_dim] (null with shared_value), rows
// key_stride / value_stride floats apart. `pool` is the layer's page 0.
struct KvWrite {
  KvLayout layout;
  void* pool = nullptr;
  const KvRow* rows = nullptr;  // [T]
  const float* keys = nullptr;
  const float* values = nullptr;
  int64_t num_tokens = 0;
  int64_t key_stride = 0, value_stride = 0;
};

// Causal attention of each token over positions [0, position] of its sequence, keys and values as
// stored. Query head h uses kv head h / (num_heads / kv_heads). Per tile [64 t, 64 t + 64):
//   s_j = DOT(q, k_j) * softmax_scale,  m = max s_j,  p_j = exp(s_j - m),
//   l = SUM(p_j) (chain j mod 16),  o_d = sum of p_j * v_j,d by fma, j ascending from +0.
// Tiles merge in ascending order: M' = max(M, m), a = exp(M - M'), b = exp(m - M'),
//   L = fma(l, b, L * a), O = fma(o, b, O * a) (the first tile is taken as it is); out = O / L.
// Slots after a token's position are never read into its result, whatever they hold.
// q [T, heads, key_dim], out [T, heads, value_dim]. Consecutive tokens with the same `pages`
// pointer share work. max_position: no token's position is above it (the bound of a captured
// graph's contexts), or 0 where nobody knows; the device cuts long contexts into pieces by it, the
// host ignores it. It changes no bit.
struct Attention {
  KvLayout layout;
  const void* pool = nullptr;
  const KvRow* rows = nullptr;  // [T]
  const float* q = nullptr;
  float* out = nullptr;
  void* scratch = nullptr;  // attention_scratch_bytes()
  int64_t num_tokens = 0;
  int64_t num_heads = 0;
  int64_t q_stride = 0, out_stride = 0;  // floats between tokens
  float softmax_scale = 1;
  int32_t max_position = 0;
};

enum class ScoreFunction : uint8_t { kSoftmax, kSigmoid };
enum class GroupScore : uint8_t { kMax, kTopTwoSum };

// More experts than this in one layer are refused (kInternal) by Ops::route.
inline constexpr int kMaxExperts = 2048;

// Everything that differs between the families' routers.
struct RouterKnobs {
  int num_experts = 0;  // E
  int top_k = 0;        // K
  ScoreFunction score = ScoreFunction::kSoftmax;
  bool has_selection_bias = false;  // added to the score for the choice only
  int num_groups = 1;               // experts are grouped in order, E / num_groups each
  int top_groups = 1;               // groups kept
  GroupScore group_score = GroupScore::kTopTwoSum;
  bool renormalise = false;  // weights / (their sum + renormalise_eps)
  float renormalise_eps = 0;
  float scale = 1;  // multiplies the weights last
};

// Chooses K experts a token. logits [T, E] -> expert_ids [T, K] in ASCENDING expert id, weights [T,
// K] in the same order. Softmax is over all E. The choice is by selection score, then lower expert
// id; groups likewise (a group of one expert counts with that expert's score); experts of dropped
// groups are never chosen (as in transformers 5; the kept groups hold at least K experts). The sum
// for renormalising is taken in ascending expert id. A token whose logits or selection scores are
// not all finite gets expert_ids[t, 0] = -1, the rest of its row unspecified: the caller fails by
// name.
struct Route {
  RouterKnobs knobs;
  const float* logits = nullptr;
  const float* selection_bias = nullptr;  // [E] or null
  int32_t* expert_ids = nullptr;
  float* weights = nullptr;
  int64_t num_tokens = 0;
};

// out[i, :] = x[row[i], :], width numbers of four bytes a row: fills the rows of a message. Copies
// bits: quantised rows count as activation_row_bytes / 4 numbers.
struct GatherRows {
  const float* x = nullptr;
  const int32_t* row = nullptr;
  float* out = nullptr;
  int64_t num_rows = 0;
  int64_t width = 0;
};

// out = silu(gate) * up, silu(x) = x / (1 + exp(-x)); element-wise over `count`. Out may equal
// gate.
struct SiluMul {
  const float* gate = nullptr;
  const float* up = nullptr;
  float* out = nullptr;
  int64_t count = 0;
};

// One expert's weights: gate, up [I, H]; down [H, I].
struct ExpertWeights {
  MatrixView gate, up, down;
};

// The routed experts' feed-forward on rows grouped by expert: pair p in
// [group_begin[g], group_begin[g + 1]) applies experts[g] to row pair_row[p] of x and writes
// out + out_offset[p] (in elements): down(silu(gate x) * up x), every product a DOT. Experts of one
// call are all q8, all q4, or neither; quantised ones take x_quantised [S], rows of
// activation_row_bytes(H), quantise silu(gate x) * up x as QuantiseRows does, and use QDOT. With
// x_bf16 the hidden values are rounded to bf16 before the last product. Results go to `out`, or to
// out_bf16, rounded once from the f32 sums (nearest, ties to even); the other one is null, whatever
// the rows are. Groups may be empty.
struct GroupedFfn {
  const float* x = nullptr;                // [S, H], rows x_stride floats apart
  const void* x_quantised = nullptr;       // [S] quantised rows
  const uint16_t* x_bf16 = nullptr;        // [S, H], rows one after the other
  const ExpertWeights* experts = nullptr;  // [num_groups]
  const int32_t* group_begin = nullptr;    // [num_groups + 1]
  const int32_t* pair_row = nullptr;       // [P]
  const int64_t* out_offset = nullptr;     // [P]
  float* out = nullptr;
  uint16_t* out_bf16 = nullptr;
  float* hidden = nullptr;           // scratch [P, 2 I]
  void* hidden_quantised = nullptr;  // scratch of P activation_row_bytes(I), for quantised experts
  DType weight_dtype = DType::kF32;  // of all experts of the call
  int64_t num_pairs = 0;             // P, or more where only the device knows P: sizes the grid
  int32_t num_groups = 0;
  int64_t hidden_size = 0;  // H
  int64_t width = 0;        // I
  int64_t x_stride = 0;
};

// out[t] = residual[t] + ((sum over k ascending of weights[t, k] * result(t, k), by fma from +0)
//          + shared[t] * gate[t]). result(t, k) lies at results + result_offset[t * K + k], or at
// results_bf16 (widened to f32) where results is null; shared [T, H] or null, shared_gate [T] or
// null (1). out may equal residual.
struct Combine {
  const float* residual = nullptr;
  const float* results = nullptr;
  const uint16_t* results_bf16 = nullptr;
  const int64_t* result_offset = nullptr;  // [T, K] elements
  const float* weights = nullptr;          // [T, K]
  const float* shared = nullptr;
  const float* shared_gate = nullptr;
  float* out = nullptr;
  int64_t num_tokens = 0;
  int64_t top_k = 0;
  int64_t hidden_size = 0;
};

// How one token is drawn: logits / temperature, the top_k largest, softmax, top-p, min-p, in that
// order, in double, ids ascending among equal logits; kernels/pick_token.h draws the same.
inline constexpr int32_t kMaxDrawnTopK = 256;
struct TokenDraw {
  double unit = 0;        // the draw, in [0, 1)
  int32_t top_k = 0;      // 1 to kMaxDrawnTopK; 0: the greedy pick
  float temperature = 1;  // > 0
  float top_p = 1;        // (0, 1]
  float min_p = 0;        // [0, 1): of the most likely token's probability
};

// Picks a token of each row of logits [S, V], rows `stride` floats apart: greedy (the largest, the
// lower id among equals) or as draws[s] says. ids[s] is -1 where a logit of the row is not finite.
struct PickTokens {
  const float* logits = nullptr;
  const TokenDraw* draws = nullptr;  // [S], or null: all greedy
  int32_t* ids = nullptr;
  int64_t num_rows = 0;
  int64_t vocabulary = 0;  // V, at least 1
  int64_t stride = 0;
};

// Element-wise, in place over `count` numbers.
struct Elementwise {
  float* x = nullptr;
  const float* other = nullptr;  // add: x += other
  int64_t count = 0;
  float low = 0, high = 0;  // clamp
};

}  // namespace colibri
