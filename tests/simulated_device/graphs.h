// Capture of streams into graphs, and their replay.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "streams.h"

namespace colibri_sim {

struct Node {
  Task task;
  std::vector<int> after;
};

struct Capture {
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool is_valid = true;
  bool is_ended = false;
  std::vector<CUstream_st*> streams;  // that take part, the origin too
  std::vector<Node> nodes;
};

// Adds the task to the capture that the stream is part of.
cudaError_t add_to_capture(CUstream_st& stream, Task task);
// Records or waits for an event in a capture; both are called when stream or event is part of one.
cudaError_t record_in_capture(CUevent_st& event, CUstream_st& stream);
cudaError_t wait_in_capture(CUstream_st& stream, const CUevent_st& event);

// A call that must not be made on a stream that captures: spoils the capture, gives the error.
cudaError_t refuse_in_capture(CUstream_st& stream, const char* call);
// A call that may not be made while this thread (or, with global mode, any) captures; `call` names
// it. cudaSuccess when nothing speaks against it.
cudaError_t refuse_while_capturing(const char* call);
// The null stream may not be used while a blocking stream captures.
cudaError_t refuse_default_stream(const char* call);
size_t num_live_graphs();

}  // namespace colibri_sim
