// Numbers that the writer and the reader of route records share; docs/routes.md explains them.
#pragma once

#include <bit>
#include <cstdint>

namespace colibri::route_format {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

inline constexpr char kMagic[8] = {'C', 'L', 'B', 'R', 'O', 'U', 'T', 'E'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kTokens = 1, kLayer = 2, kEnd = 3;  // kinds of blocks
inline constexpr uint32_t kMaxTextBytes = 4096;
// Together they bound the tables that a reader makes for a header alone.
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kMaxExperts = 4096;

}  // namespace colibri::route_format
