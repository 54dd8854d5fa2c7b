// Vectors of numbers that tests of kernels make and compare.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace colibri {

// `count` numbers in about [-1, 1), different for each seed.
inline std::vector<float> random_floats(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(engine())) * 0x1p-31f;
  return values;
}

inline std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> result;
  for (const float value : values) result.push_back(float_to_bf16(value));
  return result;
}

inline std::vector<float> from_bf16(const std::vector<uint16_t>& values) {
  std::vector<float> result;
  for (const uint16_t value : values) result.push_back(bf16_to_float(value));
  return result;
}

}  // namespace colibri
