// A running 128-bit hash (XXH3) with a hex result, for comparing models across ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace colibri {

class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;

  // Adds the length and the bytes, so that neighbours do not run together.
  void add(std::string_view bytes);
  void add(uint64_t value);
  // 32 hex digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colibri
