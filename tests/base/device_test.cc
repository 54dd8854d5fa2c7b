#include "base/device.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/thread_pool.h"

namespace colibri {
namespace {

TEST(CpuDeviceTest, MemoryIsZeroAndAligned) {
  ThreadPool pool({.num_threads = 1});
  const auto device = make_cpu_device(pool);
  EXPECT_EQ(device->place(), Place::kHost);
  auto* memory = static_cast<unsigned char*>(device->allocate(65));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  for (int i = 0; i < 65; ++i) EXPECT_EQ(memory[i], 0);
  device->release(memory, 65);
}

TEST(CpuDeviceTest, CopyIsDoneWhenItReturns) {
  ThreadPool pool({.num_threads = 1});
  const auto device = make_cpu_device(pool);
  const auto stream = device->make_stream();
  const int from = 7;
  int to = 0;
  device->copy(&to, &from, sizeof from, *stream);
  EXPECT_EQ(to, 7);
  stream->synchronize();
}

TEST(CpuDeviceTest, StreamLeadsToItsPool) {
  ThreadPool pool({.num_threads = 1});
  const auto stream = make_cpu_device(pool)->make_stream();
  EXPECT_EQ(&host_pool(*stream), &pool);
}

}  // namespace
}  // namespace colibri
