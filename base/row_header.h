// The 64 bytes at the front of every message with rows: transport/ parses them, the operations that
// fill and read messages on a GPU write them. transport/row_batch.h and docs/wire.md say what
// follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace colibri {

inline constexpr uint32_t kRowMagic = 0x57524c43;  // "CLRW"
inline constexpr uint16_t kWireVersion = 3;

enum class RowKind : uint8_t { kRows = 1, kResults = 2 };

struct RowHeader {
  uint32_t magic = kRowMagic;
  uint16_t wire_version = kWireVersion;
  RowKind kind = RowKind::kRows;
  uint8_t payload_dtype = 0;  // DType
  uint32_t epoch = 0;
  int32_t source_rank = 0;  // the coordinator that asked
  uint64_t step = 0;
  int32_t layer = 0;
  int32_t num_rows = 0;
  int32_t num_pairs = 0;
  int32_t hidden_size = 0;
  uint64_t payload_bytes = 0;
  uint64_t compute_ns = 0;  // results: how long the worker computed
  uint64_t reserved = 0;
};
static_assert(sizeof(RowHeader) == 64 && alignof(RowHeader) == 8);
static_assert(std::is_trivially_copyable_v<RowHeader>);
static_assert(offsetof(RowHeader, epoch) == 8 && offsetof(RowHeader, step) == 16);
static_assert(offsetof(RowHeader, layer) == 24 && offsetof(RowHeader, payload_bytes) == 40);

}  // namespace colibri
