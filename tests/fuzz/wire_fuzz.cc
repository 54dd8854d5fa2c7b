// The first byte chooses the parser (0: rows, 1: results, else: control); the rest is a message.
// Whatever it is, parsing either works, and every view then lies inside the message, or throws
// Error with kInput.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "transport/control.h"
#include "transport/row_batch.h"

namespace {

using namespace colibri;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

bool is_inside(std::span<const std::byte> message, const void* begin, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(begin);
  return first >= message.data() && bytes <= message.size() &&
         first + bytes <= message.data() + message.size();
}

void parse_rows(std::span<const std::byte> message, RowKind kind) {
  const RowExpectation want{.kind = kind,
                            .epoch = 0,
                            .hidden_size = 3,
                            .num_layers = 4,
                            .max_rows = int64_t{1} << 31,
                            .max_pairs = int64_t{1} << 31};
  const RowMessageView view = parse_row_message(message, 0, want);
  const size_t payload_bytes = static_cast<size_t>(view.header->num_rows) * 3 * sizeof(float);
  require(is_inside(message, view.payload, payload_bytes));
  if (kind == RowKind::kResults) return;
  require(is_inside(message, view.pair_begin.data(), view.pair_begin.size_bytes()));
  require(is_inside(message, view.slots.data(), view.slots.size_bytes()));
  require(view.pair_begin.size() == static_cast<size_t>(view.header->num_rows) + 1);
  for (const int32_t slot : view.slots) require(slot >= 0);
  for (const int32_t begin : view.pair_begin) {
    require(begin >= 0 && static_cast<size_t>(begin) <= view.slots.size());
  }
}

void parse_one_control(std::span<const std::byte> message) {
  const ControlView view = parse_control(message, 0, 0);
  require(is_inside(message, view.text.data(), view.text.size()));
  require(is_inside(message, view.body, view.header.body_bytes));
  if (view.kind() != ControlKind::kStatus || view.as<StatusBody>().is_error == 0) return;
  const ErrorInfo error = error_of(view);
  const std::vector<std::byte> encoded = encode_error(0, 0, error);
  const ControlView again = parse_control(encoded, 0, 0);
  require(error_of(again).kind == error.kind && exit_code(error.kind) != 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t bytes = size - 1;
  // Exactly as long as the message, so that a sanitizer sees a read past its end.
  const std::unique_ptr<std::byte[]> copy(new std::byte[bytes]);
  if (bytes > 0) std::memcpy(copy.get(), data + 1, bytes);
  const std::span<const std::byte> message(copy.get(), bytes);
  try {
    switch (data[0]) {
      case 0:
        parse_rows(message, RowKind::kRows);
        break;
      case 1:
        parse_rows(message, RowKind::kResults);
        break;
      default:
        parse_one_control(message);
    }
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput);
  }
  return 0;
}
