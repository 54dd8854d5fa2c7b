// The streams and events of the process.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "random.h"
#include "streams.h"

namespace colibri_sim {

struct Registry {
  std::vector<std::unique_ptr<CUstream_st>> streams;  // default streams too
  std::vector<CUstream_st*> defaults;                 // by device; null until first used
  std::set<CUevent_st*> events;
  Random random{1};
  int num_streams = 0;
};
Registry& registry();

CUstream_st* add_stream(int device, unsigned int flags, int priority);
// Removes destroyed streams that have nothing left to do.
void sweep_streams();
// To the end of the queue, after what the rules of the null stream add.
void push(CUstream_st& stream, Task task, CompletionPtr* completion);
// Where all that is now in the queue is done; none when it is empty.
CompletionPtr tail_of(const CUstream_st& stream);

}  // namespace colibri_sim
