#include "races.h"

#include <algorithm>

#include "execution.h"
#include "memory.h"

namespace colibri_sim {
namespace {

constexpr uint8_t kSeveralWarps = 255;
constexpr size_t kMostPages = 4096;  // kept after a launch, of 16 KB for the most part
size_t num_pages = 0;

struct Place {
  const void* address = nullptr;
  bool is_write = false;
  const Allocation* allocation = nullptr;
};

std::string place_text(const Place& place) {
  if (place.allocation != nullptr) return address_text(place.address);
  return "byte " +
         std::to_string(static_cast<const unsigned char*>(place.address) - execution().shared) +
         " of shared memory";
}

[[noreturn]] void report(const Place& place, const std::string& other, const char* what) {
  fail_thread("race: it " + std::string(place.is_write ? "writes " : "reads ") + place_text(place) +
              ", which " + other + " " + what);
}

std::string thread_of_block(int thread, uint32_t tick) {
  const auto& blocks = execution().blocks;
  const auto next = std::upper_bound(blocks.begin(), blocks.end(), tick,
                                     [](uint32_t t, const auto& one) { return t < one.first; });
  const uint3 b = std::prev(next)->second;
  return short_thread_text(thread) + " of block (" + std::to_string(b.x) + ", " +
         std::to_string(b.y) + ", " + std::to_string(b.z) + ")";
}

void check_writer(WordHistory& word, const Place& place) {
  const Execution& now = execution();
  if (word.write_tick == 0) return;
  if (word.write_tick < now.block_tick) {
    if (place.allocation != nullptr) {
      report(place, thread_of_block(word.writer, word.write_tick), "wrote in the same launch");
    }
    word.write_tick = 0;
    return;
  }
  if (now.is_before(word.writer, word.write_tick)) return;
  report(place, short_thread_text(word.writer), "wrote, with no meeting between");
}

// Lanes of the reader's warp whose reads do not come before what the running thread does.
unsigned int unordered_readers(const WordHistory& word) {
  const Execution& now = execution();
  const int first = word.reader_warp * kWarpSize;
  unsigned int out = 0;
  for (unsigned int left = word.readers; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (!now.is_before(first + lane, word.read_tick)) out |= 1u << lane;
  }
  return out;
}

void check_readers(const WordHistory& word, const Place& place) {
  const Execution& now = execution();
  if (word.is_read_by_earlier_block && place.allocation != nullptr) {
    report(place, "a thread of another block", "read in the same launch");
  }
  if (word.read_tick == 0) return;
  if (word.read_tick < now.block_tick) {
    if (place.allocation != nullptr) {
      report(place, "a thread of another block", "read in the same launch");
    }
    return;
  }
  if (word.read_tick < now.barrier_tick) return;
  if (word.reader_warp == kSeveralWarps) {
    report(place, "threads of several warps", "read, with no __syncthreads between");
  }
  const unsigned int others = unordered_readers(word);
  if (others == 0) return;
  report(place, short_thread_text(word.reader_warp * kWarpSize + __builtin_ctz(others)),
         "read, with no meeting between");
}

void note_read(WordHistory& word) {
  const Execution& now = execution();
  const unsigned int own = 1u << now.lane;
  if (word.read_tick >= now.barrier_tick) {
    if (word.reader_warp == now.warp) {
      word.readers = word.readers == own ? own : unordered_readers(word) | own;
      word.read_tick = now.tick;
      return;
    }
    word.reader_warp = kSeveralWarps;
    word.read_tick = now.tick;
    return;
  }
  if (word.read_tick != 0 && word.read_tick < now.block_tick) word.is_read_by_earlier_block = true;
  word.readers = own;
  word.reader_warp = static_cast<uint8_t>(now.warp);
  word.read_tick = now.tick;
}

void touch(WordHistory& word, const Place& place) {
  check_writer(word, place);
  if (!place.is_write) {
    note_read(word);
    return;
  }
  check_readers(word, place);
  word = {};
  word.write_tick = execution().tick;
  word.writer = static_cast<uint16_t>(execution().thread);
}

void refine(ShadowPage& page, int shift) {
  const int finer = page.shift - shift;
  std::vector<WordHistory> words(page.words.size() << finer);
  for (size_t i = 0; i < words.size(); ++i) words[i] = page.words[i >> finer];
  page.words = std::move(words);
  page.shift = shift;
}

std::vector<std::unique_ptr<ShadowPage>>& shared_shadow() {
  static auto* pages = new std::vector<std::unique_ptr<ShadowPage>>(kPageBytes);
  return *pages;
}

ShadowPage& page_of(std::vector<std::unique_ptr<ShadowPage>>& pages, size_t idx, int shift) {
  if (pages.size() <= idx) pages.resize(idx + 1);
  std::unique_ptr<ShadowPage>& page = pages[idx];
  if (page == nullptr) {
    page = std::make_unique<ShadowPage>();
    ++num_pages;
  }
  if (page->launch != execution().launch) {
    page->launch = execution().launch;
    page->shift = shift;
    page->words.assign(kPageBytes >> shift, {});
  }
  if (shift < page->shift) refine(*page, shift);
  return *page;
}

}  // namespace

void check_race(const void* address, size_t bytes, bool is_write, Allocation* allocation) {
  const Execution& now = execution();
  const uintptr_t base =
      allocation == nullptr ? reinterpret_cast<uintptr_t>(now.shared) : allocation->begin;
  const size_t offset = reinterpret_cast<uintptr_t>(address) - base;
  const int shift = bytes >= 4 ? 2 : static_cast<int>(bytes) - 1;
  auto& pages = allocation == nullptr ? shared_shadow() : allocation->shadow;
  ShadowPage& page = page_of(pages, offset / kPageBytes, shift);
  const Place place{address, is_write, allocation};
  const size_t first = (offset % kPageBytes) >> page.shift;
  const size_t count = bytes >> page.shift;
  for (size_t i = 0; i < count; ++i) touch(page.words[first + i], place);
}

void trim_shadows() {
  if (num_pages <= kMostPages) return;
  for (Allocation* one : all_allocations()) one->shadow.clear();
  num_pages = 0;
}

}  // namespace colibri_sim
