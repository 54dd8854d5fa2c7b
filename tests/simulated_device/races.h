// Remembers who touched which word, so that two threads that touch one with no order between them,
// one of them writing, are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace colibri_sim {

struct Allocation;

// Who touched a word last.
struct WordHistory {
  uint32_t write_tick = 0;  // 0: nobody
  uint32_t read_tick = 0;
  uint32_t readers = 0;  // lanes of reader_warp that are not in order among themselves
  uint16_t writer = 0;
  uint8_t reader_warp = 0;
  bool is_read_by_earlier_block = false;
};

// The histories of one page of memory, of words of 4 bytes, or less once less was touched.
struct ShadowPage {
  uint64_t launch = 0;
  int shift = 2;
  std::vector<WordHistory> words;
};

// Fault of the running thread when the access is a race. `allocation` is null for shared memory.
void check_race(const void* address, size_t bytes, bool is_write, Allocation* allocation);
// After a launch: shadows are kept for the next one as long as they are not too large.
void trim_shadows();

}  // namespace colibri_sim
