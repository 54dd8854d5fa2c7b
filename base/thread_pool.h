// One pool of own threads. Work is split over rows or outputs, never over a reduction, so the
// number of threads never changes a result.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace colibri {

class ThreadPool {
 public:
  struct Options {
    int num_threads = 1;    // the caller included, at least 1
    std::vector<int> cpus = {};  // pin thread i to cpus[i]; empty: no pinning
    bool spin = true;       // spin briefly for work before sleeping
  };

  explicit ThreadPool(Options options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Runs task(i) for every i in [0, num_tasks), the caller taking part, and returns when all are
  // done. Order and thread are unspecified. The first exception of a task is rethrown here after
  // all tasks ended. Not reentrant: one caller at a time, no nesting.
  void run(int64_t num_tasks, const std::function<void(int64_t)>& task);

 private:
  void worker_loop(int thread_idx);
  void work_on_current();
  void record_exception();
  bool wait_for_generation(uint64_t seen);

  Options options_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stop_{false};
  const std::function<void(int64_t)>* task_ = nullptr;
  int64_t num_tasks_ = 0;
  std::atomic<int64_t> next_task_{0};
  std::atomic<int> num_busy_{0};
  std::exception_ptr exception_;
};

// The CPUs this process may use: the cgroup's allowed set (never the inherited affinity mask, which
// an MPI launcher may have narrowed), limited by the cgroup's CPU quota in number. Ascending.
std::vector<int> allowed_cpus();

// Lets the calling thread run on `cpus` only. Refused is fine: it is a matter of speed.
void bind_this_thread(const std::vector<int>& cpus);

// The share of `cpus` for one of `num_local_ranks` processes on this machine: a contiguous part, at
// least one CPU each (ranks share CPUs when there are more ranks than CPUs).
std::vector<int> cpus_of_local_rank(const std::vector<int>& cpus, int local_rank,
                                    int num_local_ranks);

}  // namespace colibri
