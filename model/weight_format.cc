#include "model/weight_format.h"

#include "base/error.h"

namespace colibri {
namespace {

bool is_expert(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp ||
         role == TensorRole::kExpertDown;
}

WeightFormat parse_format(const char* option, const std::string& text) {
  for (const WeightFormat format : {WeightFormat::kAsStored, WeightFormat::kF32,
                                    WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ4}) {
    if (text == to_string(format)) return format;
  }
  fail(ErrorKind::kInput, option, " is '", text, "', want auto, f32, bf16, q8 or q4");
}

// Packed weights are what they are: going over to another form would add its error to theirs.
void check_stays(TensorRole role, DType stored, const WeightFormats& formats) {
  const WeightFormat asked = is_expert(role) ? formats.experts : formats.dense;
  if (asked == WeightFormat::kAsStored || to_string(asked) == std::string(to_string(stored))) {
    return;
  }
  fail(ErrorKind::kUnsupported, to_string(role), " is stored as ", to_string(stored), " and ",
       is_expert(role) ? "--weights" : "--dense-weights", " asks for ", to_string(asked),
       ": leave it auto, or convert the original model to ", to_string(asked));
}

bool is_wide(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kBF16;
}

}  // namespace

const char* to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kAsStored:
      return "auto";
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kQ8:
      return "q8";
    case WeightFormat::kQ4:
      return "q4";
  }
  return "unknown";
}

WeightFormats parse_weight_formats(const std::string& weights, const std::string& dense) {
  WeightFormats formats;
  formats.experts = parse_format("--weights", weights);
  formats.dense = parse_format("--dense-weights", dense);
  if (formats.dense == WeightFormat::kAsStored && is_wide(formats.experts)) {
    formats.dense = formats.experts;
  }
  return formats;
}

DType kept_dtype(TensorRole role, DType stored, const WeightFormats& formats) {
  if (is_always_f32(role)) return DType::kF32;
  if (is_quantised(stored)) {
    check_stays(role, stored, formats);
    return stored;
  }
  const bool stays_wide = role == TensorRole::kEmbedding || role == TensorRole::kLatentKvB;
  switch (is_expert(role) ? formats.experts : formats.dense) {
    case WeightFormat::kF32:
      return DType::kF32;
    case WeightFormat::kBF16:
      return DType::kBF16;
    case WeightFormat::kQ8:
      if (!stays_wide) return DType::kQ8;
      break;
    case WeightFormat::kQ4:
      if (!stays_wide) return DType::kQ4;
      break;
    case WeightFormat::kAsStored:
      break;
  }
  return stored == DType::kBF16 || stored == DType::kF8E4M3 ? DType::kBF16 : DType::kF32;
}

}  // namespace colibri
