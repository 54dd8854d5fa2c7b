#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <string>
#include <system_error>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int kSpins = 2000;  // some tens of microseconds: shorter than waking a sleeping thread

void relax() { __builtin_ia32_pause(); }

// "0-3,8" -> 0 1 2 3 8; anything else ends the parse.
std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  size_t at = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) {
    size_t used = 0;
    const int first = std::stoi(text.substr(at), &used);
    at += used;
    int last = first;
    if (at < text.size() && text[at] == '-') {
      last = std::stoi(text.substr(at + 1), &used);
      at += used + 1;
    }
    for (int cpu = first; cpu <= last && last < CPU_SETSIZE; ++cpu) cpus.push_back(cpu);
    if (at < text.size() && text[at] == ',') ++at;
  }
  return cpus;
}

std::vector<int> cpus_from_cgroup() {
  for (const char* path :
       {"/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset/cpuset.effective_cpus",
        "/sys/devices/system/cpu/online"}) {
    std::ifstream file(path);
    std::string line;
    if (file && std::getline(file, line)) {
      std::vector<int> cpus = parse_cpu_list(line);
      if (!cpus.empty()) return cpus;
    }
  }
  return {0};
}

// CPUs' worth of time the cgroup grants, rounded up; 0 when unlimited.
int cpu_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>((std::stod(quota) + period - 1) / period));
}

void end_threads(std::mutex& mutex, std::atomic<bool>& stop, std::condition_variable& wake,
                 std::vector<std::thread>& threads) {
  {
    std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void bind_this_thread(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus = cpus_from_cgroup();
  const int quota = cpu_quota();
  if (quota > 0 && static_cast<int>(cpus.size()) > quota) cpus.resize(static_cast<size_t>(quota));
  return cpus;
}

std::vector<int> cpus_of_local_rank(const std::vector<int>& cpus, int local_rank,
                                    int num_local_ranks) {
  const int num_cpus = static_cast<int>(cpus.size());
  if (num_local_ranks >= num_cpus) return {cpus[static_cast<size_t>(local_rank % num_cpus)]};
  const int begin = local_rank * num_cpus / num_local_ranks;
  const int end = (local_rank + 1) * num_cpus / num_local_ranks;
  return {cpus.begin() + begin, cpus.begin() + end};
}

ThreadPool::ThreadPool(Options options) : options_(std::move(options)) {
  check(options_.num_threads >= 1, "ThreadPool of ", options_.num_threads, " threads");
  try {
    for (int i = 1; i < options_.num_threads; ++i) {
      threads_.emplace_back([this, i] { worker_loop(i); });
    }
  } catch (const std::system_error& error) {
    end_threads(mutex_, stop_, wake_, threads_);
    fail(ErrorKind::kEnvironment, "cannot start thread ", threads_.size() + 2, " of ",
         options_.num_threads, ": ", error.what(), "; want fewer (--threads N)");
  }
}

ThreadPool::~ThreadPool() { end_threads(mutex_, stop_, wake_, threads_); }

void ThreadPool::run(int64_t num_tasks, const std::function<void(int64_t)>& task) {
  if (threads_.empty() || num_tasks <= 1) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    task_ = &task;
    num_tasks_ = num_tasks;
    exception_ = nullptr;
    next_task_ = 0;
    num_busy_ = static_cast<int>(threads_.size());
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  work_on_current();
  for (int spin = 0; options_.spin && spin < kSpins && num_busy_.load() > 0; ++spin) relax();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return num_busy_.load() == 0; });
  if (exception_) std::rethrow_exception(exception_);
}

void ThreadPool::work_on_current() {
  while (true) {
    const int64_t i = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (i >= num_tasks_) return;
    try {
      (*task_)(i);
    } catch (...) {
      record_exception();
    }
  }
}

void ThreadPool::record_exception() {
  std::lock_guard lock(mutex_);
  if (!exception_) exception_ = std::current_exception();
}

// Returns false when the pool stops.
bool ThreadPool::wait_for_generation(uint64_t seen) {
  for (int spin = 0; options_.spin && spin < kSpins; ++spin) {
    if (generation_.load(std::memory_order_acquire) != seen) return true;
    relax();
  }
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
  return !stop_;
}

void ThreadPool::worker_loop(int thread_idx) {
  if (!options_.cpus.empty()) {
    bind_this_thread({options_.cpus[static_cast<size_t>(thread_idx) % options_.cpus.size()]});
  }
  uint64_t seen = 0;
  while (wait_for_generation(seen)) {
    ++seen;
    work_on_current();
    if (num_busy_.fetch_sub(1) == 1) {
      std::lock_guard lock(mutex_);  // so that the waiter cannot miss the notification
      done_.notify_one();
    }
  }
}

}  // namespace colibri
