// Opens and closes device memory to the host: by a protection key where the processor has them
// (some 20 cycles, by thread), else by mprotect.
#pragma once

#include <cstddef>

namespace colibri_sim {

// Memory that opens and closes from now on; it is left as it stands just now, open or closed.
void guard_memory(void* memory, size_t bytes);
// Writes happen in between; nests.
void open_memory();
void close_memory();
// How often it is open now; set it to 0 and back to close it for a while.
int open_depth();
void set_open_depth(int depth);

}  // namespace colibri_sim
