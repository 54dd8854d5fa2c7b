// What hostile templates and conversations are held to while they are parsed and rendered.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colibri::jinja {

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 18;
inline constexpr int kMaxParseDepth = 64;   // brackets, unary signs and tags in one another
inline constexpr int kMaxNodeDepth = 400;   // the tree's height; a long sum is a high tree
inline constexpr int kMaxValueDepth = 100;  // lists in lists
inline constexpr size_t kMaxValueBytes = size_t{1} << 24;
inline constexpr int64_t kMaxRange = 100'000;
inline constexpr int kMaxCallDepth = 600;  // nodes being evaluated at one time

}  // namespace colibri::jinja
