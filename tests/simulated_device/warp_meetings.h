// Where lanes of a warp meet: shuffles, votes, __syncwarp, matrix products.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "execution.h"

namespace colibri_sim {

class WarpMeetings {
 public:
  void reset(size_t num_warps);
  // The running thread joins the meeting of `mask` and hands in its value. Faults: a mask without
  // its own lane, with lanes that the block does not have or that have left, that contradicts the
  // mask of a lane that waits, or another operation than the others'.
  void arrive(unsigned int mask, const void* value, size_t bytes);
  // Of the running thread's meeting: whether all are there.
  bool is_complete() const;
  // Ends it; gives its lanes. They are in order from now on.
  unsigned int complete();
  // Of the running thread's last meeting.
  const unsigned char* table() const;
  // `thread` has left the kernel. Fault when somebody waits for it.
  void leave_kernel(int thread);
  // What the waiting `thread` waits for.
  std::string missing_text(int thread) const;

 private:
  struct Meeting {
    unsigned int mask = 0, there = 0;
    size_t bytes = 0;
    int num_readers = 0;
    unsigned char table[kWarpSize * kMeetingBytes];
  };
  struct Warp {
    std::vector<Meeting*> open;
    Meeting* last[kWarpSize] = {};  // by lane
    unsigned int left = 0;          // lanes that have left the kernel
  };
  Meeting& join(Warp& warp, unsigned int mask, size_t bytes);
  void check_masks(const Warp& warp, unsigned int mask) const;
  void leave(Warp& warp, int lane);
  Meeting* mine() const;

  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Meeting>> all_;
  std::vector<Meeting*> free_;
};

}  // namespace colibri_sim
