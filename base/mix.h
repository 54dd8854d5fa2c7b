// Scrambling of 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014), of whose input
// every bit reaches every output bit. For reproducible draws, not for secrets.
#pragma once

#include <cstdint>

namespace colibri {

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace colibri
