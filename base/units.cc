#include "base/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace colibri {
namespace {

std::string with_decimals(double value, int decimals, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f %s", decimals, value, unit);
  return text;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  constexpr std::array<const char*, 6> kUnits = {"KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return with_decimals(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "unknown";
  if (seconds < 9.95) return with_decimals(seconds, 1, "s");
  if (seconds < 119.5) return with_decimals(seconds, 0, "s");
  if (seconds < 119.5 * 60) return with_decimals(seconds / 60, 0, "min");
  return with_decimals(seconds / 3600, 0, "h");
}

}  // namespace colibri
