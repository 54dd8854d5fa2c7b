#include "base/device.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/buffer.h"
#include "base/counting_device.h"
#include "base/staging_buffer.h"
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

TEST(CountingDeviceTest, CountsWhatIsOutAndTakesNothing) {
  const auto device = make_counting_device();
  Buffer large(*device, size_t{1} << 50);  // no machine has it
  EXPECT_EQ(device->allocated_bytes(), int64_t{1} << 50);
  {
    const Buffer small(*device, 100);
    EXPECT_EQ(device->allocated_bytes(), (int64_t{1} << 50) + 100);
  }
  large.reserve_discarding(3);  // is larger already
  EXPECT_EQ(device->allocated_bytes(), int64_t{1} << 50);
  large = Buffer(*device, 7);
  EXPECT_EQ(device->allocated_bytes(), 7);
}

TEST(CountingDeviceTest, StagingIsMemoryAndIsCountedByItself) {
  const auto device = make_counting_device();
  {
    StagingBuffer memory(*device, 5);
    memory.as<char>()[4] = 1;
    EXPECT_EQ(device->staging_bytes(), 5);
    EXPECT_EQ(device->allocated_bytes(), 0);
  }
  EXPECT_EQ(device->staging_bytes(), 0);
}

}  // namespace
}  // namespace colibri
