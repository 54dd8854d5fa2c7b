#include "coordinator/task_thread.h"

#include <utility>

namespace colibri {

TaskThread::TaskThread(const Limits& limits) : limits_(limits), thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  came_.notify_one();
  thread_.join();
}

bool TaskThread::post(size_t bytes, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_full = tasks_.size() >= limits_.max_tasks;
    const bool is_too_much = !tasks_.empty() && num_bytes_ + bytes > limits_.max_bytes;
    if (is_full || is_too_much) return false;
    tasks_.push_back({bytes, std::move(task)});
    num_bytes_ += bytes;
  }
  came_.notify_one();
  return true;
}

size_t TaskThread::num_left() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void TaskThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front().run);
    lock.unlock();
    task();
    task = nullptr;  // what it holds is given back before it stops counting
    lock.lock();
    num_bytes_ -= tasks_.front().bytes;
    tasks_.pop_front();
  }
}

}  // namespace colibri
