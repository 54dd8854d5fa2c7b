#include "coordinator/device_path_limits.h"

#include <algorithm>

#include "transport/row_batch.h"

namespace colibri {

std::vector<int> workers_of(const DeviceLink& link) {
  std::vector<int> workers;
  for (int rank = 0; rank < link.size(); ++rank) {
    if (rank != link.rank() && link.reaches(rank)) workers.push_back(rank);
  }
  return workers;
}

namespace {

int64_t row_bytes_of(const DevicePathParts& parts) {
  return token_row_bytes(parts.row_dtype, parts.config->hidden_size);
}

size_t fixed_message_bytes(const DevicePathParts& parts, int64_t tokens) {
  if (tokens == 0) return 0;
  const size_t bytes =
      row_message_layout(tokens, tokens * parts.config->top_k, row_bytes_of(parts)).total_bytes;
  return (bytes + 63) / 64 * 64;
}

}  // namespace

DeviceMessages::Limits limits_of(const DevicePathParts& parts, int64_t max_rows) {
  const int64_t ranks = parts.link->size(), top_k = parts.config->top_k;
  const int64_t pairs = parts.max_tokens * top_k;
  const int64_t front = sizeof(RowHeader) + sizeof(int32_t) + 2 * 64;
  const int64_t numbers = (max_rows + pairs) * static_cast<int64_t>(sizeof(int32_t));
  const auto exact = static_cast<size_t>(ranks * front + numbers + max_rows * row_bytes_of(parts));
  const int64_t fixed_pairs = ranks * parts.fixed.max_tokens * top_k;
  return {.num_layers = parts.config->num_layers,
          .row_dtype = parts.row_dtype,
          .hidden_size = parts.config->hidden_size,
          .message_bytes = std::max(exact, static_cast<size_t>(ranks) *
                                               fixed_message_bytes(parts, parts.fixed.max_tokens)),
          .num_results = std::max(pairs, fixed_pairs),
          .num_choices = pairs,
          .own_rows_travel = parts.self_exchange};
}

size_t step_choices(const DevicePathParts& parts) {
  return static_cast<size_t>(parts.config->num_layers * parts.max_tokens * parts.config->top_k);
}

}  // namespace colibri
