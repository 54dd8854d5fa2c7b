#include "settings.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace colibri_sim {
namespace {

[[noreturn]] void refuse(const char* name, std::string_view value, const char* want) {
  std::fprintf(stderr, "simulated device: %s=%.*s; want %s\n", name, static_cast<int>(value.size()),
               value.data(), want);
  std::abort();
}

std::string_view text_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

uint64_t number_in(const char* name, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse(name, text, "a number");
  return value;
}

uint64_t number_of(const char* name, uint64_t otherwise) {
  const std::string_view text = text_of(name);
  return text.empty() ? otherwise : number_in(name, text);
}

std::vector<std::string> list_of(const char* name) {
  std::vector<std::string> parts;
  std::string_view text = text_of(name);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

// Unless said otherwise the seed decides.
StreamOrder order_of_streams(uint64_t seed) {
  const std::string_view text = text_of("COLIBRI_SIM_STREAMS");
  if (text.empty()) {
    constexpr StreamOrder kBySeed[] = {StreamOrder::kAtOnce, StreamOrder::kLate,
                                       StreamOrder::kMixed};
    return kBySeed[seed % 3];
  }
  if (text == "late") return StreamOrder::kLate;
  if (text == "at-once") return StreamOrder::kAtOnce;
  if (text == "mixed") return StreamOrder::kMixed;
  refuse("COLIBRI_SIM_STREAMS", text, "late, at-once or mixed");
}

Settings read() {
  Settings s;
  s.seed = number_of("COLIBRI_SIM_SEED", s.seed);
  s.order = order_of_streams(s.seed);
  s.num_devices = static_cast<int>(number_of("COLIBRI_SIM_DEVICES", 1));
  if (s.num_devices > 64) refuse("COLIBRI_SIM_DEVICES", text_of("COLIBRI_SIM_DEVICES"), "0 to 64");
  s.labels = list_of("COLIBRI_SIM_UUIDS");
  const auto sizes = list_of("COLIBRI_SIM_MEMORY");
  if (!sizes.empty()) s.memory_bytes.clear();
  for (const std::string& size : sizes) {
    s.memory_bytes.push_back(number_in("COLIBRI_SIM_MEMORY", size));
  }
  const auto capability = text_of("COLIBRI_SIM_CAPABILITY");
  if (!capability.empty() &&
      std::sscanf(capability.data(), "%d.%d", &s.capability_major, &s.capability_minor) != 2) {
    refuse("COLIBRI_SIM_CAPABILITY", capability, "major.minor, as 9.0");
  }
  const uint64_t protection = number_of("COLIBRI_SIM_PROTECT", 1);
  if (protection > 2) refuse("COLIBRI_SIM_PROTECT", text_of("COLIBRI_SIM_PROTECT"), "0, 1 or 2");
  s.protection = static_cast<Protection>(protection);
  s.finds_races = number_of("COLIBRI_SIM_RACES", 1) != 0;
  s.counts = number_of("COLIBRI_SIM_COUNTERS", 1) != 0;
  s.has_peer_access = number_of("COLIBRI_SIM_PEERS", 1) != 0;
  s.has_nccl = number_of("COLIBRI_SIM_NCCL", 1) != 0;
  for (int i = 0; i < s.num_devices; ++i) s.visible.push_back(i);
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) return s;
  s.visible.clear();
  for (const std::string& part : list_of("CUDA_VISIBLE_DEVICES")) {
    const int number = part.empty() ? -1 : std::atoi(part.c_str());
    if (number < 0 || number >= s.num_devices) break;  // CUDA sees those before the first wrong one
    s.visible.push_back(number);
  }
  s.num_devices = static_cast<int>(s.visible.size());
  return s;
}

}  // namespace

Settings& settings() {
  static Settings one = read();
  return one;
}

}  // namespace colibri_sim
