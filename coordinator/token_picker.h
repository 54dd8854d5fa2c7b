// From a step's logits to what the host gets of them: tokens that were picked where the logits lie,
// and the logits themselves only where somebody reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/staging_buffer.h"
#include "coordinator/forward_context.h"
#include "coordinator/sampler.h"

namespace colibri {

// What came of one LogitRow, in host memory.
struct StepRow {
  int32_t id = -1;                     // the picked token; -1 where none was wanted
  std::span<const float> logits = {};  // [V] where they were wanted; maybe empty elsewhere
};

// Tokens that are drawn from more than kMaxDrawnTopK, and those of a request that changes its
// logits, are picked on the host, from logits that are fetched for it; the bits are the same.
class TokenPicker {
 public:
  // What `context` points to outlives it.
  explicit TokenPicker(const ForwardContext& context);

  // Room for so many rows, at addresses that stay until it is called with more. No step is under
  // way.
  void reserve(int64_t num_rows);
  // Room on the host for so many rows of logits, so that begin_step() takes none for as many.
  void reserve_on_host(int64_t num_rows);

  // Room on the host for what `rows` want. No step is under way: memory that devices copy to is
  // given back only when they stand still.
  void begin_step(std::span<const LogitRow> rows);

  // Enqueues the picks of this step's inputs from logits [num_rows, V]. May be captured.
  void pick(const float* logits, int64_t num_rows);

  // Enqueues the copies to the host of what `rows` want, the same as begin_step's. They are no part
  // of a captured step.
  void fetch(std::span<const LogitRow> rows, const float* logits);

  // [rows], valid until the next fetch. Call it when the step's work is done, with the same rows.
  // Errors: kInput naming a token whose logit is not finite, where a token was to be picked.
  std::span<const StepRow> take(std::span<const LogitRow> rows);

 private:
  bool is_on_host() const { return context_.device->place() == Place::kHost; }
  size_t vocab_size() const { return static_cast<size_t>(context_.config->vocab_size); }
  size_t row_bytes() const { return vocab_size() * sizeof(float); }
  std::span<const float> row(const float* data) const { return {data, vocab_size()}; }
  void fetch_ids();
  void fetch_logits(std::span<const LogitRow> rows);
  [[noreturn]] void fail_on(size_t row_idx);

  ForwardContext context_;
  Buffer ids_;                                  // [rows] where the logits lie
  std::unique_ptr<StagingBuffer> host_ids_;     // the same, where the host cannot read them
  std::unique_ptr<StagingBuffer> host_logits_;  // [rows that the host reads, V], likewise
  const float* logits_ = nullptr;               // of this step
  std::vector<StepRow> rows_;
};

}  // namespace colibri
