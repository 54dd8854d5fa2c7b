// Every operation of the forward pass, once. CPU and CUDA implement the same list; the rules for
// all operations and the contract of each stand beside its arguments in kernels/op_types.h and
// kernels/exchange_ops.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/device.h"
#include "kernels/exchange_ops.h"
#include "kernels/op_types.h"

namespace colibri {

// The operations of one backend. Stateless but for its choice of instruction set; thread safe.
class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string name() const = 0;  // "cpu/avx512", "cpu/avx2", "cpu/portable", "cuda"
  // Turns panels of a q8 or q4 matrix, packed as base/quantised.h says, into the order that this
  // backend's products read: [rows, cols] in host memory, in place, whole panels. Thread safe.
  virtual void pack_weights(DType dtype, int64_t rows, int64_t cols, void* panels) const = 0;
  virtual void embed(const EmbedRows&, Stream&) = 0;
  virtual void rms_norm(const RmsNorm&, Stream&) = 0;
  virtual void quantise_rows(const QuantiseRows&, Stream&) = 0;
  virtual void round_rows(const RoundRows&, Stream&) = 0;
  virtual void matmul(const MatMul&, Stream&) = 0;
  virtual void batched_matmul(const BatchedMatMul&, Stream&) = 0;
  virtual void rope_angles(const RopeAngles&, Stream&) = 0;
  virtual void rope(const Rope&, Stream&) = 0;
  virtual void kv_write(const KvWrite&, Stream&) = 0;
  // Scratch that serves every attention call on this stream with the layout and num_heads of
  // `largest` and at most its num_tokens. Reads no pointer of `largest`; contexts do not matter.
  virtual int64_t attention_scratch_bytes(const Attention& largest, Stream&) = 0;
  virtual void attention(const Attention&, Stream&) = 0;
  virtual void route(const Route&, Stream&) = 0;
  virtual void gather_rows(const GatherRows&, Stream&) = 0;
  virtual void silu_mul(const SiluMul&, Stream&) = 0;
  virtual void sigmoid(const Elementwise&, Stream&) = 0;  // x = 1 / (1 + exp(-x))
  virtual void add(const Elementwise&, Stream&) = 0;
  virtual void clamp(const Elementwise&, Stream&) = 0;
  virtual void grouped_ffn(const GroupedFfn&, Stream&) = 0;
  virtual void combine(const Combine&, Stream&) = 0;
  virtual void pick_tokens(const PickTokens&, Stream&) = 0;
  virtual void plan_dispatch(const PlanDispatch&, Stream&) = 0;
  virtual void pack_rows(const PackRows&, Stream&) = 0;
  virtual void group_pairs(const GroupPairs&, Stream&) = 0;
  virtual void locate_results(const LocateResults&, Stream&) = 0;
  virtual void mark_progress(const MarkProgress&, Stream&) = 0;
};

// Fails with kInternal when no choice of experts could have these knobs. Ops::route calls it.
void check_router(const RouterKnobs& knobs);

// kAvx2 includes FMA and F16C, kAvx512 also F, BW, DQ, VL and VNNI.
enum class Isa : uint8_t { kPortable, kAvx2, kAvx512 };
const char* to_string(Isa isa);

// The best set this processor has. COLIBRI_ISA=portable|avx2|avx512 asks for another (launch reads
// it).
Isa best_isa();
bool isa_is_available(Isa isa);

// Fails with kUnsupported when this processor lacks `isa`.
std::unique_ptr<Ops> make_cpu_ops(Isa isa);

}  // namespace colibri
