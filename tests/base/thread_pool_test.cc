#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

using Cpus = std::vector<int>;

TEST(ThreadPoolTest, EveryTaskRunsOnce) {
  for (const int num_threads : {1, 2, 3, 5, 7}) {
    ThreadPool pool({.num_threads = num_threads});
    EXPECT_EQ(pool.num_threads(), num_threads);
    std::vector<std::atomic<int>> runs(1000);
    pool.run(1000, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(ThreadPoolTest, NoTasksReturnAtOnce) {
  ThreadPool pool({.num_threads = 3});
  pool.run(0, [](int64_t) { FAIL(); });
}

TEST(ThreadPoolTest, WritesOfTasksAreSeenAfterRun) {
  ThreadPool pool({.num_threads = 3});
  std::vector<int64_t> values(100, 0);  // plain memory: run() itself must order the accesses
  for (int64_t round = 1; round <= 50; ++round) {
    pool.run(100, [&](int64_t i) { values[static_cast<size_t>(i)] += round; });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}),
              100 * round * (round + 1) / 2);
  }
}

// Runs shorter than waking a thread: no thread may take a task of the run before or after.
TEST(ThreadPoolTest, ManySmallRunsStayApart) {
  for (const bool spin : {true, false}) {
    ThreadPool pool({.num_threads = 3, .spin = spin});
    for (int64_t round = 0; round < 3000; ++round) {
      std::atomic<int64_t> sum{0};
      pool.run(2, [&, round](int64_t i) { sum += round + i; });
      ASSERT_EQ(sum, 2 * round + 1);
    }
  }
}

TEST(ThreadPoolTest, ExceptionReachesTheCallerAfterAllTasksEnded) {
  for (const int num_threads : {2, 3}) {
    ThreadPool pool({.num_threads = num_threads});
    std::atomic<int> ended{0};
    EXPECT_ERROR(pool.run(100,
                          [&](int64_t i) {
                            ++ended;
                            if (i == 40) fail(ErrorKind::kInput, "task ", i);
                          }),
                 kInput, "task 40");
    EXPECT_EQ(ended, 100);
  }
}

TEST(ThreadPoolTest, ExceptionOfALoneThreadReachesTheCaller) {
  ThreadPool pool({.num_threads = 1});
  EXPECT_THROW(pool.run(2, [](int64_t) { throw std::logic_error("x"); }), std::logic_error);
}

TEST(ThreadPoolTest, WorksAgainAfterAnException) {
  ThreadPool pool({.num_threads = 3});
  for (int round = 0; round < 20; ++round) {
    EXPECT_ANY_THROW(pool.run(10, [](int64_t) { throw std::runtime_error("x"); }));
    std::atomic<int> runs{0};
    pool.run(10, [&](int64_t) { ++runs; });
    EXPECT_EQ(runs, 10);
  }
}

TEST(ThreadPoolTest, PoolsThatNeverWorkEnd) {
  for (int i = 0; i < 50; ++i) ThreadPool pool({.num_threads = 4});
}

TEST(ThreadPoolTest, CpusThatDoNotExistDoNotStopWork) {
  ThreadPool pool({.num_threads = 3, .cpus = {1000, 1001, 1002}});
  std::atomic<int> runs{0};
  pool.run(9, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs, 9);
}

TEST(ThreadPoolTest, PoolOfNoThreadsIsABug) {
  EXPECT_ERROR(ThreadPool({.num_threads = 0}), kInternal, "ThreadPool of 0 threads");
}

TEST(BindThisThreadTest, ThreadKeepsOnlyTheCpusGiven) {
  std::thread thread([] {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    int first = 0;
    while (!CPU_ISSET(static_cast<size_t>(first), &before)) ++first;
    bind_this_thread({first});
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_EQ(CPU_COUNT(&after), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(first), &after));
  });
  thread.join();
}

TEST(AllowedCpusTest, AreAtLeastOneAndAscend) {
  const Cpus cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_GE(cpus.front(), 0);
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end(), std::less_equal<>()));
}

TEST(CpusOfLocalRankTest, RanksShareInContiguousParts) {
  const Cpus cpus = {0, 2, 4, 6, 8};
  EXPECT_EQ(cpus_of_local_rank(cpus, 0, 1), cpus);
  EXPECT_EQ(cpus_of_local_rank(cpus, 0, 2), (Cpus{0, 2}));
  EXPECT_EQ(cpus_of_local_rank(cpus, 1, 2), (Cpus{4, 6, 8}));
}

TEST(CpusOfLocalRankTest, EveryCpuGoesToExactlyOneRank) {
  Cpus cpus(13);
  std::iota(cpus.begin(), cpus.end(), 0);
  for (const int num_ranks : {1, 2, 3, 5, 7, 13}) {
    Cpus all;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const Cpus part = cpus_of_local_rank(cpus, rank, num_ranks);
      EXPECT_FALSE(part.empty()) << rank << " of " << num_ranks;
      all.insert(all.end(), part.begin(), part.end());
    }
    EXPECT_EQ(all, cpus);
  }
}

TEST(CpusOfLocalRankTest, MoreRanksThanCpusShare) {
  const Cpus cpus = {3, 5};
  EXPECT_EQ(cpus_of_local_rank(cpus, 0, 3), Cpus{3});
  EXPECT_EQ(cpus_of_local_rank(cpus, 1, 3), Cpus{5});
  EXPECT_EQ(cpus_of_local_rank(cpus, 2, 3), Cpus{3});
}

}  // namespace
}  // namespace colibri
