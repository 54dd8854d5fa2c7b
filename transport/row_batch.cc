#include "transport/row_batch.h"

#include <cstring>

#include "base/dtype.h"
#include "base/error.h"

namespace colibri {
namespace {

using Wide = unsigned __int128;  // no product of two header fields overflows it

constexpr size_t kPayloadAlignment = 64;
constexpr Wide kMaxMessageBytes = Wide{1} << 62;

// Everything a complaint needs to name the message.
struct Source {
  int from;
  RowKind kind;
};

const char* message_name(RowKind kind) {
  switch (kind) {
    case RowKind::kRows:
      return "row message";
    case RowKind::kResults:
      return "result message";
  }
  return "message";
}

DType payload_dtype(const RowExpectation& want) {
  return want.kind == RowKind::kRows ? want.row_dtype : want.result_dtype;
}

template <class Got, class... Want>
[[noreturn]] void refuse(const Source& source, const char* field, Got got, const Want&... want) {
  fail(ErrorKind::kInput, message_name(source.kind), " from rank ", source.from, ": ", field,
       " is ", got, ", want ", want...);
}

void check_frame(const RowHeader& header, const Source& source, const RowExpectation& want) {
  if (header.magic != kRowMagic) refuse(source, "magic", header.magic, kRowMagic);
  if (header.wire_version != kWireVersion) {
    refuse(source, "wire_version", header.wire_version, kWireVersion,
           "; run the same build on every rank");
  }
  if (header.kind != want.kind) {
    refuse(source, "kind", static_cast<int>(header.kind), static_cast<int>(want.kind));
  }
  const DType dtype = payload_dtype(want);
  if (header.payload_dtype != static_cast<uint8_t>(dtype)) {
    refuse(source, "payload_dtype", static_cast<int>(header.payload_dtype), static_cast<int>(dtype),
           " (", to_string(dtype), "); start every rank with the same --weights and --activations");
  }
  if (header.epoch != want.epoch) refuse(source, "epoch", header.epoch, want.epoch);
  if (header.reserved != 0) refuse(source, "reserved", header.reserved, 0);
  if (header.source_rank < 0) refuse(source, "source_rank", header.source_rank, "at least 0");
  if (header.kind == RowKind::kRows && header.source_rank != source.from) {
    refuse(source, "source_rank", header.source_rank, "the sender, ", source.from);
  }
}

void check_counts(const RowHeader& header, const Source& source, const RowExpectation& want) {
  if (header.layer < 0 || header.layer >= want.num_layers) {
    refuse(source, "layer", header.layer, "[0, ", want.num_layers, ")");
  }
  if (header.hidden_size != want.hidden_size || header.hidden_size <= 0) {
    refuse(source, "hidden_size", header.hidden_size, want.hidden_size);
  }
  const int64_t max_rows = header.kind == RowKind::kRows ? want.max_rows : want.max_pairs;
  if (header.num_rows < 0 || header.num_rows > max_rows) {
    refuse(source, "num_rows", header.num_rows, "[0, ", max_rows, "]");
  }
  if (header.num_pairs < 0 || header.num_pairs > want.max_pairs) {
    refuse(source, "num_pairs", header.num_pairs, "[0, ", want.max_pairs, "]");
  }
  if (header.kind == RowKind::kResults && header.num_rows != header.num_pairs) {
    refuse(source, "num_rows", header.num_rows, "num_pairs, ", header.num_pairs);
  }
}

// The whole size first: after this every offset of the layout lies inside the message.
void check_size(const RowHeader& header, const Source& source, size_t message_bytes,
                int64_t row_bytes) {
  const Wide payload = Wide(header.num_rows) * Wide(row_bytes);
  if (Wide(header.payload_bytes) != payload) {
    refuse(source, "payload_bytes", header.payload_bytes, static_cast<uint64_t>(payload), " (",
           header.num_rows, " rows of ", row_bytes, " bytes)");
  }
  Wide total = sizeof(RowHeader) + payload;
  if (header.kind == RowKind::kRows) {
    const Wide words = Wide(header.num_rows) + 1 + Wide(header.num_pairs);
    const Wide front = sizeof(RowHeader) + words * sizeof(int32_t);
    total = (front + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment + payload;
  }
  if (Wide(message_bytes) != total) {
    refuse(source, "size", message_bytes, static_cast<uint64_t>(total), " bytes for ",
           header.num_rows, " rows and ", header.num_pairs, " pairs");
  }
}

void check_pairs(const RowMessageView& view, const Source& source) {
  if (view.pair_begin.front() != 0) refuse(source, "pair_begin[0]", view.pair_begin.front(), 0);
  for (size_t row = 0; row + 1 < view.pair_begin.size(); ++row) {
    if (view.pair_begin[row + 1] < view.pair_begin[row]) {
      refuse(source, "pair_begin", view.pair_begin[row + 1], "at least ", view.pair_begin[row],
             " after row ", row);
    }
  }
  if (view.pair_begin.back() != view.header->num_pairs) {
    refuse(source, "last pair_begin", view.pair_begin.back(), "num_pairs, ",
           view.header->num_pairs);
  }
  for (size_t pair = 0; pair < view.slots.size(); ++pair) {
    if (view.slots[pair] < 0) refuse(source, "slot", view.slots[pair], "at least 0, pair ", pair);
  }
}

}  // namespace

RowMessageLayout row_message_layout(int64_t num_rows, int64_t num_pairs, int64_t row_bytes) {
  check(num_rows >= 0 && num_pairs >= 0 && row_bytes >= 0, "row message of ", num_rows, " rows, ",
        num_pairs, " pairs, ", row_bytes, " bytes a row");
  Wide at = 0;
  const auto take = [&at](Wide bytes) {
    const Wide here = at;
    at += bytes;
    return here;
  };
  take(sizeof(RowHeader));
  const Wide begins = take((Wide(num_rows) + 1) * sizeof(int32_t));
  const Wide slots = take(Wide(num_pairs) * sizeof(int32_t));
  at = (at + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
  const Wide payload = take(Wide(num_rows) * Wide(row_bytes));
  check(at <= kMaxMessageBytes, "row message of ", num_rows, " rows, ", num_pairs, " pairs, ",
        row_bytes, " bytes a row is past 2^62 bytes");
  return {static_cast<size_t>(begins), static_cast<size_t>(slots), static_cast<size_t>(payload),
          static_cast<size_t>(at)};
}

RowMessageView parse_row_message(std::span<const std::byte> message, int from,
                                 const RowExpectation& want) {
  check(reinterpret_cast<uintptr_t>(message.data()) % alignof(RowHeader) == 0,
        "message buffer is not 8-byte aligned");
  const Source source{from, want.kind};
  if (message.size() < sizeof(RowHeader)) {
    refuse(source, "size", message.size(), "at least ", sizeof(RowHeader), " bytes");
  }
  // A copy: the buffer may be memory that the sender's process still maps.
  RowHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  check_frame(header, source, want);
  check_counts(header, source, want);
  const int64_t row_bytes = token_row_bytes(payload_dtype(want), header.hidden_size);
  check_size(header, source, message.size(), row_bytes);

  RowMessageView view;
  view.header = reinterpret_cast<const RowHeader*>(message.data());
  if (header.kind == RowKind::kResults) {
    view.payload = message.data() + sizeof(RowHeader);
    return view;
  }
  const RowMessageLayout layout = row_message_layout(header.num_rows, header.num_pairs, row_bytes);
  const auto* words = reinterpret_cast<const int32_t*>(message.data() + layout.pair_begin);
  view.pair_begin = {words, static_cast<size_t>(header.num_rows) + 1};
  view.slots = {words + view.pair_begin.size(), static_cast<size_t>(header.num_pairs)};
  view.payload = message.data() + layout.payload;
  check_pairs(view, source);
  return view;
}

RowHeader results_header(const RowHeader& request, DType dtype, uint64_t payload_bytes) {
  RowHeader header = request;
  header.kind = RowKind::kResults;
  header.payload_dtype = static_cast<uint8_t>(dtype);
  header.num_rows = request.num_pairs;
  header.payload_bytes = payload_bytes;
  return header;
}

}  // namespace colibri
