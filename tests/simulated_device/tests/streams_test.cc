#include "kernels/cuda/intrinsics.cuh"
#include "sim_rig.h"
#include "simulated_stream.h"

namespace colibri_sim {

using colibri::cuda::load;
using colibri::cuda::store;

__global__ void add_one_kernel(int* values) {
  store(values + threadIdx.x, load(values + threadIdx.x) + 1);
}
__global__ void copy_kernel(const int* from, int* to) {
  store(to + threadIdx.x, load(from + threadIdx.x));
}

class Streams : public SimTest {};

TEST_F(Streams, FreshDeviceMemoryIsPoisoned) {
  EXPECT_EQ(host(device_array<uint32_t>(3), 3), std::vector<uint32_t>(3, 0xFFFFFFFF));
}

TEST_F(Streams, WorkRunsInTheOrderOfItsStream) {
  int* values = filled<int>({1, 2, 3});
  const cudaStream_t s = stream();
  EXPECT_EQ(cudaMemsetAsync(values, 0, 12, s), cudaSuccess);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(add_one_kernel, grid(1, 3, s), values), cudaSuccess);
  EXPECT_EQ(host(values, 3), (std::vector<int>{5, 5, 5}));
}

TEST_F(Streams, PinnedDestinationIsPoisonUntilWaitedFor) {
  const int* values = filled<int>({7, 8});
  int* pinned = pinned_array<int>(2);
  pinned[0] = 1;
  const cudaStream_t s = stream();
  EXPECT_EQ(cudaMemcpyAsync(pinned, values, 8, cudaMemcpyDeviceToHost, s), cudaSuccess);
  EXPECT_EQ(pinned[0], -1);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_EQ(pinned[0], 7);
  EXPECT_EQ(pinned[1], 8);
}

TEST_F(Streams, PinnedSourceIsReadWhenTheCopyRuns) {
  int* values = device_array<int>(1);
  int* pinned = pinned_array<int>(1);
  *pinned = 1;
  const cudaStream_t s = stream();
  EXPECT_EQ(cudaMemcpyAsync(values, pinned, 4, cudaMemcpyHostToDevice, s), cudaSuccess);
  *pinned = 2;
  EXPECT_EQ(host(values, 1)[0], 2);
}

TEST_F(Streams, PageableSourceIsReadAtTheCall) {
  int* values = device_array<int>(1);
  int pageable = 1;
  const cudaStream_t s = stream();
  EXPECT_EQ(cudaMemcpyAsync(values, &pageable, 4, cudaMemcpyHostToDevice, s), cudaSuccess);
  pageable = 2;
  EXPECT_EQ(host(values, 1)[0], 1);
}

TEST_F(Streams, CopyToPageableMemoryIsWaitedFor) {
  const int* values = filled<int>({5});
  int pageable = 0;
  EXPECT_EQ(cudaMemcpyAsync(&pageable, values, 4, cudaMemcpyDeviceToHost, stream()), cudaSuccess);
  EXPECT_EQ(pageable, 5);
}

TEST_F(Streams, MissingWaitBetweenTwoStreamsShowsForEverySeed) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    set_seed(seed);
    int *from = filled<int>({1}), *to = filled<int>({0});
    const cudaStream_t a = stream(), b = stream();
    run(add_one_kernel, grid(1, 1, a), from);
    run(copy_kernel, grid(1, 1, b), from, to);
    EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    EXPECT_EQ(host(to, 1)[0], 1);
  }
}

TEST_F(Streams, EventOrdersTwoStreams) {
  int *from = filled<int>({1}), *to = filled<int>({0});
  const cudaStream_t a = stream(), b = stream();
  const cudaEvent_t done = event();
  run(add_one_kernel, grid(1, 1, a), from);
  cudaEventRecord(done, a);
  cudaStreamWaitEvent(b, done);
  run(copy_kernel, grid(1, 1, b), from, to);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
  EXPECT_EQ(host(to, 1)[0], 2);
}

TEST_F(Streams, EventIsReachedOnlyWhenAskedFor) {
  int* values = filled<int>({1});
  const cudaStream_t s = stream();
  const cudaEvent_t done = event();
  EXPECT_EQ(cudaEventQuery(done), cudaSuccess) << "never recorded";
  run(add_one_kernel, grid(1, 1, s), values);
  cudaEventRecord(done, s);
  int num_queries = 1;
  while (cudaEventQuery(done) == cudaErrorNotReady) ++num_queries;
  EXPECT_LT(num_queries, 100);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Streams, NullStreamWaitsForBlockingStreamsAndTheyForIt) {
  int *from = filled<int>({1}), *to = filled<int>({0});
  const cudaStream_t blocking = stream(0);
  run(add_one_kernel, grid(1, 1, blocking), from);
  run(add_one_kernel, grid(1, 1), from);
  run(copy_kernel, grid(1, 1, blocking), from, to);
  EXPECT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(host(to, 1)[0], 3);
}

TEST_F(Streams, EveryOrderGivesAWellSynchronisedProgramTheSameResult) {
  for (const auto order : {StreamOrder::kLate, StreamOrder::kAtOnce, StreamOrder::kMixed}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      set_stream_order(order);
      set_seed(seed);
      int *x = filled<int>({1, 2, 3, 4}), *y = filled<int>({0, 0, 0, 0});
      const cudaStream_t a = stream(), b = stream();
      const cudaEvent_t ready = event(), taken = event();
      for (int i = 0; i < 3; ++i) {
        run(add_one_kernel, grid(1, 4, a), x);
        cudaEventRecord(ready, a);
        cudaStreamWaitEvent(b, ready);
        run(copy_kernel, grid(1, 4, b), x, y);
        cudaEventRecord(taken, b);
        cudaStreamWaitEvent(a, taken);
      }
      EXPECT_EQ(host(y, 4), (std::vector<int>{4, 5, 6, 7}));
    }
  }
}

// Work that needs the other stream's: as an exchange between two ranks does.
class Needs : public StreamWork {
 public:
  Needs(bool& mine, bool& other) : mine_(mine), other_(other) {}
  bool step() override {
    mine_ = true;
    return other_;
  }

 private:
  bool &mine_, &other_;
};

TEST_F(Streams, WaitForOneStreamLetsTheOthersGoOnWhenItStalls) {
  bool first = false, second = false;
  const cudaStream_t a = stream(), b = stream();
  enqueue(a, [&] { return std::make_unique<Needs>(first, second); });
  enqueue(b, [&] { return std::make_unique<Needs>(second, first); });
  EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
}

TEST_F(Streams, FaultOfWorkIsReturnedByEveryLaterCall) {
  class Broken : public StreamWork {
    bool step() override { throw KernelFault("a cable is loose", cudaErrorUnknown); }
  };
  const cudaStream_t s = stream();
  EXPECT_EQ(enqueue(s, [] { return std::make_unique<Broken>(); }), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorUnknown);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
  EXPECT_EQ(faults(), std::vector<std::string>{"a cable is loose"});
}

TEST_F(Streams, HostFunctionRunsInOrderAndMayNotCallCuda) {
  const int* values = filled<int>({3});
  int* pinned = pinned_array<int>(2);
  const cudaStream_t s = stream();
  cudaMemcpyAsync(pinned, values, 4, cudaMemcpyDeviceToHost, s);
  const auto look = [](void* data) {
    auto* seen = static_cast<int*>(data);
    seen[1] = seen[0] * 10 + (cudaDeviceSynchronize() == cudaErrorNotPermitted ? 1 : 0);
  };
  cudaLaunchHostFunc(s, look, pinned);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_EQ(pinned[1], 31);
}

TEST_F(Streams, OrderLogShowsWhatWasEnqueuedBeforeAWait) {
  int* values = filled<int>({1});
  const cudaStream_t s = stream();
  start_order_log();
  run(add_one_kernel, grid(1, 1, s), values);
  cudaStreamSynchronize(s);
  const auto log = order_log();
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(log[0].what, Order::kEnqueueKernel);
  EXPECT_EQ(log[0].name, "colibri_sim::add_one_kernel");
  EXPECT_EQ(log[1].what, Order::kHostWait);
  EXPECT_EQ(log[2].what, Order::kStart);
  EXPECT_EQ(log[3].what, Order::kDone);
}

TEST_F(Streams, ElapsedTimeIsBetweenTwoReachedEvents) {
  const cudaStream_t s = stream();
  const cudaEvent_t start = event(0), end = event(0);
  cudaEventRecord(start, s);
  cudaEventRecord(end, s);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  cudaStreamSynchronize(s);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
}

TEST_F(Streams, DestroyedStreamIsRefused) {
  cudaStream_t s = nullptr;
  cudaStreamCreate(&s);
  EXPECT_EQ(cudaStreamDestroy(s), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
}

}  // namespace colibri_sim
