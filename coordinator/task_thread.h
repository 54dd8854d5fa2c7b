// One thread that runs tasks in the order in which they came. What waits is bounded.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace colibri {

class TaskThread {
 public:
  struct Limits {
    size_t max_tasks = 0;  // that wait or run
    size_t max_bytes = 0;  // that they hold together; a single task may hold more
  };
  explicit TaskThread(const Limits& limits);
  // Ends when all tasks have run.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // From any thread. False, and nothing is kept, beyond a limit. The task holds so many bytes until
  // it has run; it may throw nothing.
  bool post(size_t bytes, std::function<void()> task);

  // Tasks that wait or run.
  size_t num_left() const;

 private:
  struct Task {
    size_t bytes = 0;
    std::function<void()> run;
  };
  void run();

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Task> tasks_;  // the first one runs
  size_t num_bytes_ = 0;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace colibri
