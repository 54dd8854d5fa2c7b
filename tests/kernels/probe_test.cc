#include "kernels/probe.h"

#include <gtest/gtest.h>

#include "base/buffer.h"
#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

TEST(ProbeTest, ReadingCountsTheWholeMegabytesOfTheMemory) {
  ThreadPool pool({.num_threads = 2, .cpus = {}, .spin = false});
  const Buffer memory(5 * kMegabyte / 2);
  EXPECT_EQ(read_probe(pool, memory.data(), 5 * kMegabyte / 2).amount, 2.0 * kMegabyte);
  EXPECT_GT(rate_of(read_probe(pool, memory.data(), 5 * kMegabyte / 2)), 0);
}

TEST(ProbeTest, PeaksCountWhatAllThreadsDo) {
  ThreadPool one({.num_threads = 1, .cpus = {}, .spin = false});
  ThreadPool two({.num_threads = 2, .cpus = {}, .spin = false});
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(2 * f32_probe(one, isa).amount, f32_probe(two, isa).amount) << to_string(isa);
    EXPECT_EQ(2 * int8_probe(one, isa).amount, int8_probe(two, isa).amount) << to_string(isa);
  }
}

TEST(ProbeTest, PeaksRunOnEverySet) {
  ThreadPool pool({.num_threads = 1, .cpus = {}, .spin = false});
  for (const Isa isa : available_isas()) {
    EXPECT_GT(rate_of(f32_probe(pool, isa)), 0) << to_string(isa);
    EXPECT_GT(rate_of(int8_probe(pool, isa)), 0) << to_string(isa);
  }
}

}  // namespace
}  // namespace colibri
