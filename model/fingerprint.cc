#include "model/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace colibri {

struct Fingerprint::State {
  XXH3_state_t hash;
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
Fingerprint::~Fingerprint() = default;

void Fingerprint::add(std::string_view bytes) {
  add(static_cast<uint64_t>(bytes.size()));
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

void Fingerprint::add(uint64_t value) { XXH3_128bits_update(&state_->hash, &value, sizeof value); }

std::string Fingerprint::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace colibri
