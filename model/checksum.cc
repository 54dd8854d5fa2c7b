#include "model/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace colibri {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }
Checksum::~Checksum() = default;

void Checksum::add(const void* bytes, uint64_t size_bytes) {
  XXH3_64bits_update(&state_->hash, bytes, size_bytes);
}

uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->hash); }

uint64_t Checksum::of(const void* bytes, uint64_t size_bytes) {
  return XXH3_64bits(bytes, size_bytes);
}

}  // namespace colibri
