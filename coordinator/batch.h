// The tokens of one step, of one sequence or many, as flat arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace colibri {

struct Batch {
  std::vector<int32_t> ids;         // [T]
  std::vector<int32_t> positions;   // [T] in the own sequence
  std::vector<int32_t> sequences;   // [T] the request's number: for observers, no sum reads it
  std::vector<KvRow> rows;          // [T] page table and position
  std::vector<int32_t> logit_rows;  // tokens whose logits are wanted, ascending

  int64_t num_tokens() const { return static_cast<int64_t>(ids.size()); }
  void clear() {
    ids.clear();
    positions.clear();
    sequences.clear();
    rows.clear();
    logit_rows.clear();
  }
};

}  // namespace colibri
