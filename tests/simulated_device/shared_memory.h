// Dynamic shared memory of the block that runs: ends at a guard page as far as its alignment lets
// it, poisoned for each block.
#pragma once

#include <cstddef>

namespace colibri_sim {

void take_shared_memory(size_t bytes);
void poison_shared_memory();

}  // namespace colibri_sim
