// The launchers: one a kernel, in the .cu file of its name. They enqueue on `stream` and never
// allocate, wait or decide; the structs and their contracts are those of kernels/op_types.h and
// kernels/exchange_ops.h, with every array in the GPU's memory. CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include "kernels/exchange_ops.h"
#include "kernels/op_types.h"

namespace colibri::cuda {

void embed(const EmbedRows&, cudaStream_t stream);
void rms_norm(const RmsNorm&, cudaStream_t stream);
void quantise_rows(const QuantiseRows&, cudaStream_t stream);
void round_rows(const RoundRows&, cudaStream_t stream);
void rope_angles(const RopeAngles&, cudaStream_t stream);
void rope(const Rope&, cudaStream_t stream);
void kv_write(const KvWrite&, cudaStream_t stream);
int64_t attention_scratch_bytes(const Attention& largest);
void attention(const Attention&, cudaStream_t stream);
void route(const Route&, cudaStream_t stream);
void gather_rows(const GatherRows&, cudaStream_t stream);
void silu_mul(const SiluMul&, cudaStream_t stream);
void sigmoid(const Elementwise&, cudaStream_t stream);
void add(const Elementwise&, cudaStream_t stream);
void clamp(const Elementwise&, cudaStream_t stream);
void combine(const Combine&, cudaStream_t stream);
void pick_tokens(const PickTokens&, cudaStream_t stream);
void plan_dispatch(const PlanDispatch&, cudaStream_t stream);
void pack_rows(const PackRows&, cudaStream_t stream);
void group_pairs(const GroupPairs&, cudaStream_t stream);
void locate_results(const LocateResults&, cudaStream_t stream);
void mark_progress(const MarkProgress&, cudaStream_t stream);

// f32 rows with f32 or bf16 weights, in DOT's order.
void matmul_dot(const MatMul&, cudaStream_t stream);
void batched_matmul_dot(const BatchedMatMul&, cudaStream_t stream);
// Quantised rows with q8 or q4 weights packed for the GPU (kernels/cuda/packing.h).
void matmul_quantised(const MatMul&, cudaStream_t stream);
void batched_matmul_quantised(const BatchedMatMul&, cudaStream_t stream);
// bf16 rows with bf16 weights on tensor cores: what is taken when cuBLASLt has no algorithm that
// gives every row the same bits.
void matmul_bf16(const MatMul&, cudaStream_t stream);
// The experts' feed-forward: f32 rows in DOT's order; quantised rows; bf16 rows on tensor cores.
void grouped_ffn_dot(const GroupedFfn&, cudaStream_t stream);
void grouped_ffn_quantised(const GroupedFfn&, cudaStream_t stream);
void grouped_ffn_bf16(const GroupedFfn&, cudaStream_t stream);

}  // namespace colibri::cuda
