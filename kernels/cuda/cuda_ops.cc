// Chooses the kernel of an operation by the types of its arrays, never by the number of rows.
#include "kernels/cuda/cuda_ops.h"

#include "base/error.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/packing.h"

namespace colibri {
namespace {

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

class CudaOps : public Ops {
 public:
  explicit CudaOps(const CudaOpsOptions& options) : options_(options) {}
  std::string name() const override { return "cuda"; }
  void pack_weights(DType dtype, int64_t rows, int64_t cols, void* panels) const override {
    pack_for_cuda(dtype, panels, rows, cols, panels);
  }
  void embed(const EmbedRows& a, Stream& s) override { cuda::embed(a, native(s)); }
  void rms_norm(const RmsNorm& a, Stream& s) override { cuda::rms_norm(a, native(s)); }
  void quantise_rows(const QuantiseRows& a, Stream& s) override {
    cuda::quantise_rows(a, native(s));
  }
  void round_rows(const RoundRows& a, Stream& s) override { cuda::round_rows(a, native(s)); }
  void matmul(const MatMul& a, Stream& s) override {
    if (is_quantised(a.weight.dtype)) return cuda::matmul_quantised(a, native(s));
    if (options_.dense != nullptr && options_.dense->takes(a)) return options_.dense->run(a, s);
    if (a.x_bf16 != nullptr) return cuda::matmul_bf16(a, native(s));
    cuda::matmul_dot(a, native(s));
  }
  void batched_matmul(const BatchedMatMul& a, Stream& s) override {
    if (is_quantised(a.weight.dtype)) return cuda::batched_matmul_quantised(a, native(s));
    cuda::batched_matmul_dot(a, native(s));
  }
  void rope_angles(const RopeAngles& a, Stream& s) override { cuda::rope_angles(a, native(s)); }
  void rope(const Rope& a, Stream& s) override { cuda::rope(a, native(s)); }
  void kv_write(const KvWrite& a, Stream& s) override { cuda::kv_write(a, native(s)); }
  int64_t attention_scratch_bytes(const Attention& largest, Stream&) override {
    return cuda::attention_scratch_bytes(largest);
  }
  void attention(const Attention& a, Stream& s) override { cuda::attention(a, native(s)); }
  void route(const Route& a, Stream& s) override { cuda::route(a, native(s)); }
  void gather_rows(const GatherRows& a, Stream& s) override { cuda::gather_rows(a, native(s)); }
  void silu_mul(const SiluMul& a, Stream& s) override { cuda::silu_mul(a, native(s)); }
  void sigmoid(const Elementwise& a, Stream& s) override { cuda::sigmoid(a, native(s)); }
  void add(const Elementwise& a, Stream& s) override { cuda::add(a, native(s)); }
  void clamp(const Elementwise& a, Stream& s) override { cuda::clamp(a, native(s)); }
  void grouped_ffn(const GroupedFfn& a, Stream& s) override {
    if (is_quantised(a.weight_dtype)) return cuda::grouped_ffn_quantised(a, native(s));
    if (a.x_bf16 != nullptr) return cuda::grouped_ffn_bf16(a, native(s));
    cuda::grouped_ffn_dot(a, native(s));
  }
  void combine(const Combine& a, Stream& s) override { cuda::combine(a, native(s)); }
  void pick_tokens(const PickTokens& a, Stream& s) override { cuda::pick_tokens(a, native(s)); }
  void plan_dispatch(const PlanDispatch& a, Stream& s) override {
    cuda::plan_dispatch(a, native(s));
  }
  void pack_rows(const PackRows& a, Stream& s) override { cuda::pack_rows(a, native(s)); }
  void group_pairs(const GroupPairs& a, Stream& s) override { cuda::group_pairs(a, native(s)); }
  void locate_results(const LocateResults& a, Stream& s) override {
    cuda::locate_results(a, native(s));
  }
  void mark_progress(const MarkProgress& a, Stream& s) override {
    cuda::mark_progress(a, native(s));
  }

 private:
  CudaOpsOptions options_;
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(const CudaOpsOptions& options) {
  return std::make_unique<CudaOps>(options);
}
std::unique_ptr<Ops> make_cuda_ops() { return make_cuda_ops({}); }

}  // namespace colibri
