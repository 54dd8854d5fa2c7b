#include "warp_meetings.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "counters.h"

namespace colibri_sim {
namespace {

std::string mask_text(unsigned int mask) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%08X", mask);
  return text;
}

int first_lane(unsigned int mask) { return __builtin_ctz(mask); }

const char* operation_of(size_t bytes) {
  switch (bytes) {
    case 0:
      return "__syncwarp";
    case 1:
      return "a vote";
    case 4:
      return "a shuffle";
    default:
      return "a product or exchange";
  }
}

void order_some(WarpClock& clock, unsigned int mask, uint32_t tick) {
  uint32_t joined[kWarpSize] = {};
  for (unsigned int left = mask; left != 0; left &= left - 1) {
    const uint32_t* known = clock.known[first_lane(left)];
    for (int i = 0; i < kWarpSize; ++i) joined[i] = std::max(joined[i], known[i]);
  }
  for (unsigned int left = mask; left != 0; left &= left - 1) joined[first_lane(left)] = tick;
  for (unsigned int left = mask; left != 0; left &= left - 1) {
    std::memcpy(clock.known[first_lane(left)], joined, sizeof joined);
  }
}

}  // namespace

void WarpMeetings::reset(size_t num_warps) {
  warps_.assign(num_warps, {});
  free_.clear();
  for (const auto& one : all_) free_.push_back(one.get());
}

WarpMeetings::Meeting* WarpMeetings::mine() const {
  const Execution& now = execution();
  return warps_[static_cast<size_t>(now.warp)].last[now.lane];
}

bool WarpMeetings::is_complete() const { return mine()->there == mine()->mask; }
const unsigned char* WarpMeetings::table() const { return mine()->table; }

void WarpMeetings::leave(Warp& warp, int lane) {
  Meeting* last = std::exchange(warp.last[lane], nullptr);
  if (last != nullptr && --last->num_readers == 0) free_.push_back(last);
}

// Two lanes that wait for each other in different meetings wait for ever.
void WarpMeetings::check_masks(const Warp& warp, unsigned int mask) const {
  const Execution& now = execution();
  for (const Meeting* one : warp.open) {
    const unsigned int waiting = one->there & mask;
    if (one->mask == mask || (one->mask >> now.lane & 1u) == 0 || waiting == 0) continue;
    fail_thread("meets lanes " + mask_text(mask) + " while " +
                short_thread_text(now.warp * kWarpSize + first_lane(waiting)) +
                " waits for it among lanes " + mask_text(one->mask));
  }
}

WarpMeetings::Meeting& WarpMeetings::join(Warp& warp, unsigned int mask, size_t bytes) {
  const auto found = std::find_if(warp.open.begin(), warp.open.end(),
                                  [&](const Meeting* one) { return one->mask == mask; });
  if (found != warp.open.end()) {
    if ((*found)->bytes == bytes) return **found;
    const int other = execution().warp * kWarpSize + first_lane((*found)->there);
    fail_thread(std::string("is at ") + operation_of(bytes) + " while " + short_thread_text(other) +
                ", which it meets, is at " + operation_of((*found)->bytes));
  }
  if (free_.empty()) {
    all_.push_back(std::make_unique<Meeting>());
    free_.push_back(all_.back().get());
  }
  Meeting& one = *free_.back();
  free_.pop_back();
  one.mask = mask;
  one.there = 0;
  one.bytes = bytes;
  one.num_readers = 0;
  warp.open.push_back(&one);
  return one;
}

void WarpMeetings::arrive(unsigned int mask, const void* value, size_t bytes) {
  const Execution& now = execution();
  Warp& warp = warps_[static_cast<size_t>(now.warp)];
  if ((mask >> now.lane & 1u) == 0) {
    fail_thread("meets lanes " + mask_text(mask) + ", its own is not among them");
  }
  if ((mask & ~now.lanes_of(now.warp)) != 0) {
    fail_thread("meets lanes " + mask_text(mask) + ", its warp has only " +
                mask_text(now.lanes_of(now.warp)));
  }
  if ((mask & warp.left) != 0) {
    fail_thread("meets lanes " + mask_text(mask) + ", but " +
                short_thread_text(now.warp * kWarpSize + first_lane(mask & warp.left)) +
                " has left the kernel");
  }
  check_masks(warp, mask);
  leave(warp, now.lane);
  Meeting& meeting = join(warp, mask, bytes);
  if (bytes > 0) {
    std::memcpy(meeting.table + static_cast<size_t>(now.lane) * kMeetingBytes, value, bytes);
  }
  meeting.there |= 1u << now.lane;
  ++meeting.num_readers;
  warp.last[now.lane] = &meeting;
}

unsigned int WarpMeetings::complete() {
  Execution& now = execution();
  Meeting& meeting = *mine();
  std::erase(warps_[static_cast<size_t>(now.warp)].open, &meeting);
  WarpClock& clock = now.clocks[static_cast<size_t>(now.warp)];
  const uint32_t tick = ++now.tick;
  if (meeting.mask == now.lanes_of(now.warp)) {
    clock.full_tick = tick;
    flush_counters_of_warp(now.warp);
  } else {
    order_some(clock, meeting.mask, tick);
  }
  return meeting.mask;
}

void WarpMeetings::leave_kernel(int thread) {
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  warps_[static_cast<size_t>(warp)].left |= 1u << lane;
  for (const Meeting* one : warps_[static_cast<size_t>(warp)].open) {
    if ((one->mask >> lane & 1u) == 0) continue;
    throw KernelFault(thread_text(warp * kWarpSize + first_lane(one->there)) + " waits at " +
                      operation_of(one->bytes) + " of lanes " + mask_text(one->mask) + ", but " +
                      short_thread_text(thread) + " has left the kernel without coming");
  }
}

std::string WarpMeetings::missing_text(int thread) const {
  const Warp& warp = warps_[static_cast<size_t>(thread / kWarpSize)];
  const Meeting& meeting = *warp.last[thread % kWarpSize];
  return "lanes " + mask_text(meeting.mask & ~meeting.there) + " of its warp at " +
         operation_of(meeting.bytes);
}

}  // namespace colibri_sim
