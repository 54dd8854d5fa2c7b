#include "transport/expert_exchange.h"

#include <cstddef>

namespace colibri {

DeviceRows rows_of(const ArrivedMessage& message) {
  const RowMessageLayout layout = row_message_layout(
      message.max_rows, message.max_pairs, token_row_bytes(message.row_dtype, message.hidden_size));
  const auto* bytes = static_cast<const std::byte*>(message.data);
  const auto numbers = [&](size_t offset) {
    return reinterpret_cast<const int32_t*>(bytes + offset);
  };
  DeviceRows rows;
  rows.tokens = {bytes + layout.payload, message.row_dtype, message.hidden_size};
  rows.num_rows = numbers(offsetof(RowHeader, num_rows));
  rows.pair_begin = numbers(layout.pair_begin);
  rows.slot = numbers(layout.slots);
  rows.max_rows = message.max_rows;
  rows.max_pairs = message.max_pairs;
  return rows;
}

}  // namespace colibri
