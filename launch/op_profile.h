// Which operations a device spends its time on: Ops that time each call with events, while that is
// asked for, and count what the call has to read, write and multiply.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/device.h"
#include "kernels/ops.h"

namespace colibri {

enum class OpGroup : uint8_t {
  kDense,      // products with the coordinator's own matrices
  kExperts,    // routed experts' feed-forward
  kAttention,  // over the cache
  kExchange,   // plan, packing and sorting of rows, locating and adding results
  kRows,       // norms, rotary angles, router's choice, embedding, element-wise
};
inline constexpr size_t kNumOpGroups = 5;
const char* to_string(OpGroup kind);

// Sums over calls. Bytes and operations (two a multiply-add) are the fewest that the arguments ask
// for: weights of experts that have a row, once; keys and values once a sequence.
struct OpTotals {
  int64_t num_calls = 0;
  double us = 0, bytes = 0, flops = 0;
};
using OpProfile = std::array<OpTotals, kNumOpGroups>;

// The operations of another backend, timed between start() and stop(). Timed calls wait for the
// device, so nothing may be captured then, and each starts with cold caches: what fills
// `filler_bytes` with zeros before it keeps the device busy until the call is enqueued. One thread.
class ProfiledOps : public Ops {
 public:
  // `device` outlives it and is the one that `ops` work on.
  ProfiledOps(std::unique_ptr<Ops> ops, Device& device, size_t filler_bytes);
  void start();
  OpProfile stop();

  std::string name() const override { return ops_->name(); }
  void pack_weights(DType dtype, int64_t rows, int64_t cols, void* panels) const override {
    ops_->pack_weights(dtype, rows, cols, panels);
  }
  int64_t attention_scratch_bytes(const Attention& largest, Stream& stream) override {
    return ops_->attention_scratch_bytes(largest, stream);
  }
  void embed(const EmbedRows&, Stream&) override;
  void rms_norm(const RmsNorm&, Stream&) override;
  void quantise_rows(const QuantiseRows&, Stream&) override;
  void round_rows(const RoundRows&, Stream&) override;
  void matmul(const MatMul&, Stream&) override;
  void batched_matmul(const BatchedMatMul&, Stream&) override;
  void rope_angles(const RopeAngles&, Stream&) override;
  void rope(const Rope&, Stream&) override;
  void kv_write(const KvWrite&, Stream&) override;
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
  struct Cost {
    double bytes = 0, flops = 0;
  };
  template <class Args>
  using Member = void (Ops::*)(const Args&, Stream&);
  template <class Args>
  void run(OpGroup kind, Member<Args> member, const Args& args, const Cost& cost, Stream& stream);
  template <class T>
  std::vector<T> fetch(const T* data, int64_t count, Stream& stream);
  Cost cost_of(const GroupedFfn& op, Stream& stream);
  Cost cost_of(const Attention& op, Stream& stream);

  std::unique_ptr<Ops> ops_;
  Device& device_;
  Buffer filler_;
  std::unique_ptr<Event> start_, end_;
  bool is_on_ = false;
  OpProfile profile_{};
};

}  // namespace colibri
