// What the environment says about the simulated device, read once; tests may change seed and order
// afterwards (include/simulated_control.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "include/simulated_control.h"

namespace colibri_sim {

// How device memory is closed to the host: not at all, by keys where there are any, by mprotect.
enum class Protection : unsigned char { kNone, kBest, kPages };

struct Settings {
  uint64_t seed = 1;
  StreamOrder order = StreamOrder::kLate;
  int num_devices = 1;
  std::vector<int> visible;         // ordinal -> number of the device in the machine
  std::vector<std::string> labels;  // number -> what its UUID is made of; empty: machine and number
  std::vector<size_t> memory_bytes = {size_t{8} << 30};  // by number; the last one counts on
  int capability_major = 9, capability_minor = 0;
  Protection protection = Protection::kBest;
  bool finds_races = true;
  bool counts = true;
  bool has_peer_access = true;
  bool has_nccl = true;

  // Of the device that this process knows as `ordinal`.
  size_t memory_of(int ordinal) const {
    const auto number = static_cast<size_t>(visible[static_cast<size_t>(ordinal)]);
    return memory_bytes[number < memory_bytes.size() ? number : memory_bytes.size() - 1];
  }
};

// Aborts with a message on stderr when a variable cannot be read.
Settings& settings();

}  // namespace colibri_sim
