// Capture and replay: what is frozen, what is refused.
#include "kernels/cuda/intrinsics.cuh"
#include "sim_rig.h"
#include "simulated_stream.h"

namespace colibri_sim {

using namespace colibri::cuda;

__global__ void add_kernel(int* values, int amount) {
  store(values + threadIdx.x, load(values + threadIdx.x) + amount);
}
__global__ void copy_word_kernel(const int* from, int* to) { store(to, load(from)); }

class Graphs : public SimTest {
 protected:
  void TearDown() override {
    for (cudaGraphExec_t one : execs_) cudaGraphExecDestroy(one);
    SimTest::TearDown();
  }
  template <class F>
  cudaGraphExec_t capture(cudaStream_t s, F&& enqueue) {
    EXPECT_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    enqueue();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    execs_.push_back(exec);
    return exec;
  }
  // The error of `forbidden` inside a capture, whose end must then fail too.
  template <class F>
  cudaError_t error_inside(cudaStream_t s, F&& forbidden) {
    EXPECT_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaSuccess);
    const cudaError_t error = forbidden();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(s, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    reset_faults();
    return error;
  }
  std::vector<cudaGraphExec_t> execs_;
};

TEST_F(Graphs, CaptureRunsNothingAndReplayRunsIt) {
  int* values = filled<int>({1, 2});
  const cudaStream_t s = stream();
  const auto graph = capture(s, [&] { run(add_kernel, grid(1, 2, s), values, 10); });
  EXPECT_EQ(host(values, 2), (std::vector<int>{1, 2}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(graph, s), cudaSuccess);
  EXPECT_EQ(host(values, 2), (std::vector<int>{31, 32}));
}

TEST_F(Graphs, ReplayUsesTheParametersOfTheCapture) {
  int *first = filled<int>({0}), *second = filled<int>({0});
  const cudaStream_t s = stream();
  int* target = first;
  int amount = 1;
  const auto graph = capture(s, [&] { run(add_kernel, grid(1, 1, s), target, amount); });
  target = second;
  amount = 100;
  cudaGraphLaunch(graph, s);
  EXPECT_EQ(host(first, 1)[0], 1);
  EXPECT_EQ(host(second, 1)[0], 0);
}

TEST_F(Graphs, ReplayReadsMemoryAnew) {
  int* pinned = pinned_array<int>(1);
  int* value = device_array<int>(1);
  const cudaStream_t s = stream();
  const auto graph = capture(s, [&] {
    cudaMemcpyAsync(value, pinned, 4, cudaMemcpyHostToDevice, s);
    run(add_kernel, grid(1, 1, s), value, 1);
  });
  for (const int step : {5, 7}) {
    *pinned = step;
    cudaGraphLaunch(graph, s);
    EXPECT_EQ(host(value, 1)[0], step + 1);
  }
}

TEST_F(Graphs, ForkedStreamIsPartOfTheGraph) {
  int *a = filled<int>({0}), *b = filled<int>({0}), *out = filled<int>({0, 0});
  const cudaStream_t s = stream(), side = stream();
  const cudaEvent_t fork = event(), join = event();
  const auto graph = capture(s, [&] {
    run(add_kernel, grid(1, 1, s), a, 1);
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(side, fork);
    run(copy_word_kernel, grid(1, 1, side), a, b);
    run(copy_word_kernel, grid(1, 1, s), a, out);
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(s, join);
    run(copy_word_kernel, grid(1, 1, s), b, out + 1);
  });
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    set_seed(seed);
    cudaGraphLaunch(graph, s);
    EXPECT_EQ(host(out, 2), std::vector<int>(2, static_cast<int>(seed)));
  }
  EXPECT_EQ(run(add_kernel, grid(1, 1, side), a, 1), cudaSuccess) << "side captures no longer";
}

TEST_F(Graphs, WorkOfAMissingEdgeRunsInAnyOrder) {
  int* a = filled<int>({0});
  int* out = filled<int>({0});
  const cudaStream_t s = stream(), side = stream();
  const cudaEvent_t fork = event(), join = event();
  const auto graph = capture(s, [&] {
    cudaMemsetAsync(a, 0, 4, s);
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(side, fork);
    run(add_kernel, grid(1, 1, side), a, 1);
    run(copy_word_kernel, grid(1, 1, s), a, out);
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(s, join);
  });
  int num_early = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    set_seed(seed);
    cudaGraphLaunch(graph, s);
    if (host(out, 1)[0] == 0) ++num_early;
  }
  EXPECT_GT(num_early, 0);
  EXPECT_LT(num_early, 20);
}

TEST_F(Graphs, ForkThatIsNotJoinedIsRefused) {
  int* a = device_array<int>(1);
  const cudaStream_t s = stream(), side = stream();
  const cudaEvent_t fork = event();
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  run(add_kernel, grid(1, 1, s), a, 1);
  cudaEventRecord(fork, s);
  cudaStreamWaitEvent(side, fork);
  run(add_kernel, grid(1, 1, side), a, 1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(Graphs, WorkOfStandInsIsMadeAnewForEachReplay) {
  class Count : public StreamWork {
   public:
    explicit Count(int& count) : count_(count) {}
    bool step() override { return ++count_ % 2 == 0; }

   private:
    int& count_;
  };
  int num_made = 0, num_steps = 0;
  const cudaStream_t s = stream();
  const auto graph = capture(s, [&] {
    enqueue(s, [&] {
      ++num_made;
      return std::make_unique<Count>(num_steps);
    });
  });
  cudaGraphLaunch(graph, s);
  cudaGraphLaunch(graph, s);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_EQ(num_made, 2);
  EXPECT_EQ(num_steps, 4);
}

TEST_F(Graphs, CallsThatACaptureForbids) {
  int* a = device_array<int>(1);
  int pageable = 0;
  const cudaStream_t s = stream(), other = stream();
  const cudaEvent_t outside = event();
  cudaEventRecord(outside, other);
  const auto expect = [&](cudaError_t want, auto&& forbidden) {
    EXPECT_EQ(error_inside(s, forbidden), want);
  };
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(s); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(s); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); });
  expect(cudaErrorStreamCaptureUnsupported, [&] {
    void* memory = nullptr;
    return cudaMalloc(&memory, 4);
  });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaFree(a); });
  expect(cudaErrorStreamCaptureUnsupported, [&] { return cudaEventQuery(outside); });
  expect(cudaErrorStreamCaptureUnsupported,
         [&] { return cudaMemcpyAsync(a, &pageable, 4, cudaMemcpyHostToDevice, s); });
  expect(cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(s, outside); });
  expect(cudaErrorCapturedEvent, [&] {
    const cudaEvent_t inside = event();
    cudaEventRecord(inside, s);
    return cudaEventQuery(inside);
  });
}

TEST_F(Graphs, AfterAForbiddenCallNothingMoreIsCaptured) {
  int* a = device_array<int>(1);
  const cudaStream_t s = stream();
  error_inside(s, [&] {
    cudaStreamSynchronize(s);
    return run(add_kernel, grid(1, 1, s), a, 1);
  });
}

TEST_F(Graphs, RelaxedCaptureLetsOneAllocate) {
  const cudaStream_t s = stream();
  cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
  device_array<int>(1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaSuccess);
  size_t num_nodes = 1;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &num_nodes), cudaSuccess);
  EXPECT_EQ(num_nodes, 0u);
  cudaGraphDestroy(graph);
}

}  // namespace colibri_sim
