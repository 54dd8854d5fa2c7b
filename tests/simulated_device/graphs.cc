#include "graphs.h"

#include <algorithm>
#include <set>

#include "device_state.h"
#include "settings.h"
#include "stream_registry.h"

struct CUgraph_st {
  std::shared_ptr<const std::vector<colibri_sim::Node>> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<colibri_sim::Node>> nodes;
  colibri_sim::CompletionPtr last_launch;  // launches of one graph come one after another
};

namespace colibri_sim {
namespace {

using Nodes = std::shared_ptr<const std::vector<Node>>;

struct Graphs {
  std::vector<std::shared_ptr<Capture>> captures;  // that go on
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> execs;
};
Graphs& graphs() {
  static auto* one = new Graphs;
  return *one;
}

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

// One replay: nodes run in any order that their edges allow.
class GraphWork : public StreamWork {
 public:
  explicit GraphWork(Nodes nodes) : nodes_(std::move(nodes)), states_(nodes_->size()) {
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].num_missing = (*nodes_)[i].after.size();
      for (const int before : (*nodes_)[i].after) {
        states_[static_cast<size_t>(before)].next.push_back(i);
      }
      if (states_[i].num_missing == 0) ready_.push_back(i);
    }
  }
  bool step() override {
    while (step_any()) {
    }
    return ready_.empty();
  }

 private:
  struct State {
    std::unique_ptr<StreamWork> work;
    size_t num_missing = 0;
    std::vector<size_t> next;
  };
  // Tries the ready nodes from a drawn one on until one gets done.
  bool step_any() {
    const size_t count = ready_.size();
    const size_t first = count == 0 ? 0 : registry().random.below(static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i) {
      if (step_node((first + i) % count)) return true;
    }
    return false;
  }
  bool step_node(size_t place) {
    const size_t idx = ready_[place];
    const Task& task = (*nodes_)[idx].task;
    State& state = states_[idx];
    if (state.work == nullptr) {
      log_order(Order::kStart, task.name);
      state.work = task.make();
    }
    if (!state.work->step()) return false;
    log_order(Order::kDone, task.name);
    state.work = nullptr;
    ready_[place] = ready_.back();
    ready_.pop_back();
    for (const size_t next : state.next) {
      if (--states_[next].num_missing == 0) ready_.push_back(next);
    }
    return true;
  }
  Nodes nodes_;
  std::vector<State> states_;
  std::vector<size_t> ready_;
};

void merge_tail(std::vector<int>& tail, const std::vector<int>& more) {
  for (const int node : more) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

// Whether everything that the forked streams did comes before the origin's last node.
bool is_joined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size());
  std::vector<int> open = capture.origin->capture_tail;
  while (!open.empty()) {
    const auto node = static_cast<size_t>(open.back());
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    for (const int before : capture.nodes[node].after) open.push_back(before);
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const CUstream_st* one) {
    return std::all_of(one->capture_tail.begin(), one->capture_tail.end(),
                       [&](int node) { return reached[static_cast<size_t>(node)]; });
  });
}

cudaError_t spoil(Capture& capture, const std::string& what, cudaError_t error) {
  capture.is_valid = false;
  report_fault(what + " while a stream is capturing");
  return error;
}

cudaError_t begin(CUstream_st& stream, cudaStreamCaptureMode mode) {
  if (stream.is_default) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture->mode = mode;
  stream.capture->thread = std::this_thread::get_id();
  stream.capture->streams = {&stream};
  stream.capture_tail.clear();
  graphs().captures.push_back(stream.capture);
  return cudaSuccess;
}

cudaError_t check_end(const Capture& capture) {
  if (!capture.is_valid) return cudaErrorStreamCaptureInvalidated;
  if (is_joined(capture)) return cudaSuccess;
  report_fault("a capture ended while a forked stream's work was not joined");
  return cudaErrorStreamCaptureUnjoined;
}

cudaError_t end(CUstream_st& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream.capture == nullptr) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin != &stream) {
    capture->is_valid = false;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const cudaError_t error = check_end(*capture);
  for (CUstream_st* one : capture->streams) {
    one->capture = nullptr;
    one->capture_tail.clear();
  }
  capture->is_ended = true;
  std::erase(graphs().captures, capture);
  if (error != cudaSuccess) return error;
  *graph = new CUgraph_st{std::make_shared<const std::vector<Node>>(std::move(capture->nodes))};
  graphs().graphs.insert(*graph);
  return cudaSuccess;
}

cudaError_t launch_graph(CUgraphExec_st& exec, cudaStream_t handle) {
  CUstream_st* stream = stream_of(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) return refuse_in_capture(*stream, "cudaGraphLaunch");
  const Nodes nodes = exec.nodes;
  Task task{.name = "graph", .kind = Order::kEnqueueGraph};
  task.make = [nodes] { return std::make_unique<GraphWork>(nodes); };
  task.on_enqueue = [nodes] {
    for (const Node& node : *nodes) {
      if (node.task.on_enqueue) node.task.on_enqueue();
    }
  };
  if (exec.last_launch != nullptr && !exec.last_launch->is_done) {
    push(*stream, {.name = "wait", .kind = Order::kWaitEvent}, nullptr);
    stream->queue.back().after.push_back(exec.last_launch);
  }
  return submit(handle, std::move(task), &exec.last_launch);
}

}  // namespace

cudaError_t add_to_capture(CUstream_st& stream, Task task) {
  Capture& capture = *stream.capture;
  if (!capture.is_valid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(task), stream.capture_tail});
  stream.capture_tail = {static_cast<int>(capture.nodes.size()) - 1};
  return cudaSuccess;
}

cudaError_t record_in_capture(CUevent_st& event, CUstream_st& stream) {
  if (!stream.capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture;
  event.capture_nodes = stream.capture_tail;
  event.reached = nullptr;
  return cudaSuccess;
}

cudaError_t wait_in_capture(CUstream_st& stream, const CUevent_st& event) {
  if (event.capture == nullptr) {
    if (event.reached == nullptr) return cudaSuccess;  // never recorded
    return spoil(*stream.capture, "waiting for an event of work outside of the capture",
                 cudaErrorStreamCaptureIsolation);
  }
  if (event.capture->is_ended) return cudaErrorCapturedEvent;
  if (!event.capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (stream.is_default) {
    return spoil(*event.capture, "making the null stream wait", cudaErrorStreamCaptureImplicit);
  }
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.capture->streams.push_back(&stream);
    stream.capture_tail = event.capture_nodes;
    return cudaSuccess;
  }
  if (stream.capture != event.capture) {
    stream.capture->is_valid = false;
    return spoil(*event.capture, "merging two captures", cudaErrorStreamCaptureMerge);
  }
  merge_tail(stream.capture_tail, event.capture_nodes);
  return cudaSuccess;
}

cudaError_t refuse_in_capture(CUstream_st& stream, const char* name) {
  return spoil(*stream.capture, std::string(name) + " on it", cudaErrorStreamCaptureUnsupported);
}

cudaError_t refuse_while_capturing(const char* name) {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& capture : graphs().captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool is_global = capture->mode == cudaStreamCaptureModeGlobal &&
                           mode_of_thread == cudaStreamCaptureModeGlobal;
    if (is_own || is_global) return spoil(*capture, name, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

cudaError_t refuse_default_stream(const char* name) {
  for (const auto& capture : graphs().captures) {
    for (const CUstream_st* one : capture->streams) {
      if ((one->flags & cudaStreamNonBlocking) != 0) continue;
      return spoil(*capture, std::string(name) + " on the null stream",
                   cudaErrorStreamCaptureImplicit);
    }
  }
  return cudaSuccess;
}

size_t num_live_graphs() { return graphs().graphs.size() + graphs().execs.size(); }

}  // namespace colibri_sim

using namespace colibri_sim;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    CUstream_st* stream = stream_of(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : begin(*stream, mode);
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call([&] {
    CUstream_st* stream = stream_of(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : end(*stream, graph);
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call([&] {
    const CUstream_st* stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = cudaStreamCaptureStatusNone;
    if (stream->capture != nullptr) {
      *status = stream->capture->is_valid ? cudaStreamCaptureStatusActive
                                          : cudaStreamCaptureStatusInvalidated;
    }
    return cudaSuccess;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    if (!graphs().graphs.contains(graph)) return cudaErrorInvalidValue;
    *exec = new CUgraphExec_st{graph->nodes, nullptr};
    graphs().execs.insert(*exec);
    return cudaSuccess;
  });
}
// Only counts: nodes have no handles here.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* num_nodes) {
  return call([&] {
    if (!graphs().graphs.contains(graph)) return cudaErrorInvalidValue;
    if (nodes != nullptr) return cudaErrorNotSupported;
    *num_nodes = graph->nodes->size();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return call([&] { return graphs().execs.contains(exec) ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&] {
    return graphs().execs.contains(exec) ? launch_graph(*exec, stream) : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Guard guard(big_lock());
  if (graphs().execs.erase(exec) == 0) return remember(cudaErrorInvalidValue);
  delete exec;  // launches that are queued keep its nodes
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Guard guard(big_lock());
  if (graphs().graphs.erase(graph) == 0) return remember(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}

}  // extern "C"
