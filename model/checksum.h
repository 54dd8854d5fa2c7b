// XXH3-64 over bytes that come in pieces.
#pragma once

#include <cstdint>
#include <memory>

namespace colibri {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(const void* bytes, uint64_t size_bytes);
  uint64_t value() const;

  // Of one piece.
  static uint64_t of(const void* bytes, uint64_t size_bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colibri
