// The dispatch plan where the operations write it, and the tables it is made from.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "coordinator/expert_path.h"
#include "kernels/backend.h"
#include "topology/placement.h"

namespace colibri {

class PlanOnDevice {
 public:
  // Uploads the slots of all layers; takes room for plans of max_tokens tokens.
  struct Limits {
    int64_t max_tokens = 0, top_k = 0;
  };
  PlanOnDevice(const Placement& placement, const Backend& backend, const Limits& limits);

  // Enqueues the plan of the choices of a layer.
  void make(const RoutedTokens& tokens, Stream& stream);
  void clear_flags(Stream& stream);

  // As PlanDispatch's. Counts are kept for every layer of a step: row_begin [R + 1] and, after it,
  // rank_pair_begin [R + 1]; after those of all layers comes the flag word.
  const int32_t* row_begin(int layer) const { return counts_.as<int32_t>() + counts_at(layer); }
  uint32_t* flags() { return counts_.as<uint32_t>() + counts_at(num_layers()); }
  size_t counts_bytes() const { return counts_.size_bytes(); }
  // Where a layer's begin, in numbers of four bytes.
  size_t counts_at(int layer) const {
    return static_cast<size_t>(layer) * 2 * static_cast<size_t>(num_ranks_ + 1);
  }
  int num_layers() const { return static_cast<int>(tables_.size()); }
  int num_ranks() const { return num_ranks_; }
  const int32_t* row_token() const { return row_token_.as<int32_t>(); }
  const int32_t* pair_begin() const { return pair_begin_.as<int32_t>(); }
  const int32_t* slot() const { return slot_.as<int32_t>(); }
  const int32_t* pair_of_choice() const { return pair_of_choice_.as<int32_t>(); }
  int64_t max_rows() const { return max_rows_; }  // of all ranks together

 private:
  void upload_tables(const Placement& placement);

  struct Table {
    size_t slot_begin = 0, slots = 0;  // where a layer's tables begin
  };
  Backend backend_;
  Limits limits_;
  int32_t num_ranks_;
  int64_t max_rows_;
  std::vector<Table> tables_;  // [L]
  Buffer slot_begin_, slots_;  // all layers
  Buffer counts_, row_token_, pair_begin_, slot_, pair_of_choice_;
};

}  // namespace colibri
