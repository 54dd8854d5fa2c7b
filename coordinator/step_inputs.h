// A step's batch as the operations read it: on the host the batch's own arrays, on a GPU copies of
// them with page tables of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/uploaded_array.h"
#include "coordinator/batch.h"

namespace colibri {

// What the operation has to do with a step's rows of logits.
enum class StepPicks : uint8_t { kNone, kGreedy, kDrawn };

class StepInputs {
 public:
  explicit StepInputs(Device& device)
      : device_(device),
        ids_(device),
        positions_(device),
        logit_rows_(device),
        num_real_(device),
        tables_(device),
        rows_(device),
        draws_(device) {}

  // Keeps all addresses the same for steps of up to so many tokens and page table entries.
  void reserve(int64_t max_tokens, int64_t max_entries);

  // `batch` stays alive and unchanged until the step's work is done. Tokens from num_real on are
  // padding.
  void set(const Batch& batch, int64_t num_real, Stream& stream);

  const int32_t* ids() const { return data_.ids; }
  const int32_t* positions() const { return data_.positions; }
  const int32_t* logit_rows() const { return data_.logit_rows; }
  StepPicks picks() const { return data_.picks; }
  // Of all rows of logits, those that nobody wants a token of included; null unless kDrawn.
  const TokenDraw* draws() const { return data_.draws; }
  const KvRow* rows() const { return data_.rows; }
  const int32_t* num_real_tokens() const { return data_.num_real; }
  // No token's position is above it; on a GPU the end of 64 2^n positions, so that few differ.
  int32_t max_position() const { return data_.max_position; }

 private:
  void set_logit_rows(const Batch& batch, Stream& stream);
  const KvRow* upload_rows(const Batch& batch, Stream& stream);

  Device& device_;
  UploadedArray<int32_t> ids_, positions_, logit_rows_, num_real_, tables_;
  UploadedArray<KvRow> rows_;
  UploadedArray<TokenDraw> draws_;
  std::vector<int32_t> host_logit_rows_;
  std::vector<TokenDraw> host_draws_;
  std::vector<int32_t> host_tables_;
  std::vector<KvRow> host_rows_;
  int32_t host_num_real_ = 0;
  struct {
    const int32_t *ids, *positions, *logit_rows, *num_real;
    const KvRow* rows;
    const TokenDraw* draws;
    StepPicks picks;
    int32_t max_position;
  } data_ = {};
};

}  // namespace colibri
