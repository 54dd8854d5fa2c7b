// A small generator: the simulated device draws an order for every step of every thread.
#pragma once

#include <cstdint>

namespace colibri_sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}
  // In [0, bound), bound below 2^32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((uint64_t{next()} * bound) >> 32); }

 private:
  // SplitMix64, its upper half.
  uint32_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
  }
  uint64_t state_;
};

}  // namespace colibri_sim
