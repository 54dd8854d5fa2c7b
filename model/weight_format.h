// Which form a stored tensor takes in memory.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "model/tensor_role.h"

namespace colibri {

// A form that matrices may be asked to take in memory: the stored one (f16 becomes f32, FP8 becomes
// bf16), or one of ours.
enum class WeightFormat : uint8_t { kAsStored, kF32, kBF16, kQ8, kQ4 };
const char* to_string(WeightFormat format);

// What --weights and --dense-weights ask for.
struct WeightFormats {
  WeightFormat experts = WeightFormat::kAsStored;
  WeightFormat dense =
      WeightFormat::kAsStored;  // attention projections, dense and shared MLPs, head
};
// Each "auto", "f32", "bf16", "q8" or "q4"; fails with kInput naming the option for another word.
// `dense` "auto" is the wide format that `weights` asks for, or as stored when that is q8 or q4.
WeightFormats parse_weight_formats(const std::string& weights, const std::string& dense);

// The element type a stored tensor has in memory. Norms, biases and routers are f32; embeddings and
// kv_b_proj are never q8 or q4. A stored q8 or q4 stays what it is; kUnsupported when `formats`
// ask for another.
DType kept_dtype(TensorRole role, DType stored, const WeightFormats& formats);

}  // namespace colibri
