// Queues of work. What stands at the front of a queue runs when somebody lets the streams go on; it
// waits for the completions of other queues that it names.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "simulated_control.h"
#include "simulated_stream.h"

namespace colibri_sim {

struct Capture;  // graphs.h

// A place in a stream's work.
struct Completion {
  bool is_done = false;
  CUstream_st* stream = nullptr;  // alive until it is done
  std::chrono::steady_clock::time_point time;
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Task {
  std::string name;
  Order kind = Order::kEnqueueWork;
  MakeStreamWork make = {};               // none: nothing to do
  std::function<void()> on_enqueue = {};  // when it joins a stream, at each replay too; may be none
};

struct Item {
  Task task;
  std::vector<CompletionPtr> after;
  CompletionPtr completion;
  std::unique_ptr<StreamWork> work;
  bool is_started = false;
};

// The stream of a handle; null for one that does not live. The null stream is the current device's.
CUstream_st* stream_of(cudaStream_t handle);
int stream_number(const CUstream_st& stream);

// Puts the task at the end of the stream, or into the graph that it captures; `completion`, when
// given, is where it will be done (none in a capture). Call with the lock held.
cudaError_t submit(cudaStream_t stream, Task task, CompletionPtr* completion = nullptr);

// Lets everything go on; tells whether anything got done.
bool advance_all();
// Returns when it is done or the device has an error. Call without the lock.
cudaError_t wait_for(CompletionPtr completion, int device);
// The last piece of work of each stream of the device.
std::vector<CompletionPtr> tails_of(int device);
cudaError_t wait_for_device(int device);
// All queues of the device become empty; what waits for them goes on.
void drop_work(int device);

// Work that a function does in one step.
std::unique_ptr<StreamWork> work_of(std::function<void()> body);

}  // namespace colibri_sim

struct CUstream_st {
  int device = 0;
  int number = 0;
  int priority = 0;
  unsigned int flags = 0;
  bool is_default = false;
  bool is_destroyed = false;  // goes when its queue is empty
  bool is_busy = false;       // its front is being run
  std::deque<colibri_sim::Item> queue;
  std::shared_ptr<colibri_sim::Capture> capture;
  std::vector<int> capture_tail;  // nodes of the capture that its next one comes after
};

struct CUevent_st {
  int device = 0;
  unsigned int flags = 0;
  colibri_sim::CompletionPtr reached;  // none: never recorded
  std::shared_ptr<colibri_sim::Capture> capture;
  std::vector<int> capture_nodes;
};
