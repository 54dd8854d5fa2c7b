// Remembers who touched which word, so that two threads that touch one without an order between
// them are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace colibri_sim {

struct ShadowPage {
  std::vector<uint64_t> unused;
};

// Forgets which allocation an address was last found in.
void forget_lookups();

}  // namespace colibri_sim
