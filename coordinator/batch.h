// The tokens of one step, of one sequence or many, as flat arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/ops.h"

namespace colibri {

class LogitRules;

// A token whose logits are computed, and what is wanted of them.
struct LogitRow {
  int32_t token = 0;                   // its index in the batch
  bool is_shown = false;               // the host reads the logits
  std::optional<TokenDraw> pick = {};  // how the next token is picked; nothing: none is
  const LogitRules* rules = nullptr;   // of which it is picked on the host, where they are set

  // The operation draws from no more tokens than kMaxDrawnTopK, and of logits as they are.
  bool is_picked_on_host() const { return pick && (rules || pick->top_k > kMaxDrawnTopK); }
  bool is_picked_by_operation() const { return pick && !is_picked_on_host(); }
};

struct Batch {
  std::vector<int32_t> ids;          // [T]
  std::vector<int32_t> positions;    // [T] in the own sequence
  std::vector<int32_t> sequences;    // [T] the request's number: for observers, no sum reads it
  std::vector<KvRow> rows;           // [T] page table and position
  std::vector<LogitRow> logit_rows;  // ascending by token

  int64_t num_tokens() const { return static_cast<int64_t>(ids.size()); }
  int64_t num_logit_rows() const { return static_cast<int64_t>(logit_rows.size()); }
  void clear() {
    ids.clear();
    positions.clear();
    sequences.clear();
    rows.clear();
    logit_rows.clear();
  }
};

}  // namespace colibri
