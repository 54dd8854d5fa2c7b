#include "block_runner.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>

#include "counters.h"
#include "execution.h"
#include "fibre_stacks.h"
#include "memory.h"
#include "races.h"
#include "random.h"
#include "shared_memory.h"
#include "warp_meetings.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace colibri_sim {
namespace {

namespace context = boost::context;

enum class State : unsigned char { kReady, kAtBarrier, kAtMeeting, kDone };

struct Fibre {
  context::fiber own;     // what to resume to go on with this thread
  context::fiber caller;  // where to go back to
  State state = State::kReady;
};

class BlockRunner {
 public:
  void run(uint3 block_idx, Random& random);
  void wait_block();
  const unsigned char* meet(unsigned int mask, const void* mine, size_t bytes);

 private:
  void prepare(uint3 block_idx);
  void start(Fibre& fibre);
  void step(int thread);
  void suspend(State state);
  void make_ready(int thread);
  void release_barrier();
  void note_done(int thread);
  void check_barrier();
  [[noreturn]] void report_stuck();
  Fibre& fibre(int thread) { return *fibres_[static_cast<size_t>(thread)]; }

  std::vector<std::unique_ptr<Fibre>> fibres_;  // live on from block to block with their stacks
  std::vector<int> ready_;
  WarpMeetings meetings_;
  Random* random_ = nullptr;
  int num_done_ = 0, num_at_barrier_ = 0, num_barriers_ = 0;
  int example_done_ = -1;
  std::optional<KernelFault> fault_;
};

BlockRunner& runner() {
  static auto* one = new BlockRunner;  // its fibres outlive every static object
  return *one;
}

void BlockRunner::prepare(uint3 block_idx) {
  Execution& now = execution();
  blockIdx = now.block = block_idx;
  now.block_tick = now.barrier_tick = ++now.tick;
  now.blocks.emplace_back(now.tick, block_idx);
  now.clocks.resize(static_cast<size_t>((now.num_threads + kWarpSize - 1) / kWarpSize));
  num_done_ = num_at_barrier_ = num_barriers_ = 0;
  example_done_ = -1;
  fault_.reset();
  poison_shared_memory();
  meetings_.reset(now.clocks.size());
  ready_.clear();
  while (fibres_.size() < static_cast<size_t>(now.num_threads)) {
    fibres_.push_back(std::make_unique<Fibre>());
  }
  for (int i = 0; i < now.num_threads; ++i) {
    make_ready(i);
    if (!fibre(i).own) start(fibre(i));
  }
}

// A fibre lives on from block to block: it runs the kernel's body, says so and waits.
void BlockRunner::start(Fibre& fibre) {
  fibre.own =
      context::fiber(std::allocator_arg, FibreStacks(), [this, &fibre](context::fiber&& caller) {
        fibre.caller = std::move(caller);
        for (;;) {
          try {
            execution().call->body();
          } catch (const KernelFault& fault) {
            fault_ = fault;
          }
          suspend(State::kDone);
        }
        return std::move(fibre.caller);
      });
}

void BlockRunner::suspend(State state) {
  Fibre& own = fibre(execution().thread);
  own.state = state;
  own.caller = std::move(own.caller).resume();
}

void BlockRunner::make_ready(int thread) {
  fibre(thread).state = State::kReady;
  ready_.push_back(thread);
}

void BlockRunner::step(int thread) {
  Execution& now = execution();
  now.thread = thread;
  now.warp = thread / kWarpSize;
  now.lane = thread % kWarpSize;
  const auto n = static_cast<unsigned int>(thread);
  threadIdx = {n % blockDim.x, n / blockDim.x % blockDim.y, n / (blockDim.x * blockDim.y)};
  fibre(thread).own = std::move(fibre(thread).own).resume();
  now.thread = -1;
  if (fault_) throw *std::exchange(fault_, std::nullopt);
}

void BlockRunner::run(uint3 block_idx, Random& random) {
  random_ = &random;
  prepare(block_idx);
  try {
    while (num_done_ < execution().num_threads) {
      if (ready_.empty()) report_stuck();
      const uint32_t pick = random.below(static_cast<uint32_t>(ready_.size()));
      const int thread = ready_[pick];
      ready_[pick] = ready_.back();
      ready_.pop_back();
      step(thread);
      if (fibre(thread).state == State::kDone) note_done(thread);
      if (num_at_barrier_ == execution().num_threads) release_barrier();
    }
  } catch (const KernelFault&) {
    execution().thread = -1;
    fibres_.clear();  // unwinds the threads that wait
    throw;
  }
  flush_counters();
}

void BlockRunner::note_done(int thread) {
  ++num_done_;
  example_done_ = thread;
  check_barrier();
  meetings_.leave_kernel(thread);
}

// A barrier is for every thread of the block.
void BlockRunner::check_barrier() {
  if (num_done_ == 0 || num_at_barrier_ == 0) return;
  for (int i = 0; i < execution().num_threads; ++i) {
    if (fibre(i).state != State::kAtBarrier) continue;
    throw KernelFault(
        thread_text(i) + " waits at its __syncthreads number " + std::to_string(num_barriers_ + 1) +
        ", but " + short_thread_text(example_done_) + " has left the kernel without reaching it");
  }
}

void BlockRunner::release_barrier() {
  Execution& now = execution();
  now.barrier_tick = ++now.tick;
  ++num_barriers_;
  num_at_barrier_ = 0;
  flush_counters();
  for (int i = 0; i < now.num_threads; ++i) make_ready(i);
}

void BlockRunner::wait_block() {
  ++num_at_barrier_;
  const int thread = execution().thread;
  fibre(thread).state = State::kAtBarrier;
  check_barrier();
  suspend(State::kAtBarrier);
}

const unsigned char* BlockRunner::meet(unsigned int mask, const void* mine, size_t bytes) {
  const Execution& now = execution();
  const int first = now.warp * kWarpSize;
  meetings_.arrive(mask, mine, bytes);
  if (!meetings_.is_complete()) {
    suspend(State::kAtMeeting);
    return meetings_.table();
  }
  for (unsigned int left = meetings_.complete() & ~(1u << now.lane); left != 0; left &= left - 1) {
    make_ready(first + __builtin_ctz(left));
  }
  if (random_->below(2) == 0) {  // the last to come need not be the first to go
    ready_.push_back(now.thread);
    suspend(State::kReady);
  }
  return meetings_.table();
}

void BlockRunner::report_stuck() {
  std::string barrier, meeting;
  for (int i = 0; i < execution().num_threads; ++i) {
    if (fibre(i).state == State::kAtBarrier && barrier.empty()) {
      barrier = thread_text(i) + " waits at its __syncthreads number " +
                std::to_string(num_barriers_ + 1);
    }
    if (fibre(i).state == State::kAtMeeting && meeting.empty()) {
      meeting = thread_text(i) + " waits for " + meetings_.missing_text(i);
    }
  }
  if (barrier.empty() || meeting.empty())
    throw KernelFault(barrier + meeting + ": nobody can go on");
  throw KernelFault(meeting + ", while " + barrier);
}

}  // namespace

Execution running_block;

void run_kernel(const KernelCall& call, uint64_t seed) {
  static uint64_t num_launches = 0;
  Execution& now = execution();
  Random random(seed);
  const uint64_t blocks = uint64_t{call.grid.x} * call.grid.y * call.grid.z;
  std::vector<uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  for (uint64_t i = blocks; i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  }
  now.call = &call;
  now.host_thread = pthread_self();
  now.launch = ++num_launches;
  now.tick = 0;
  now.blocks.clear();
  now.num_threads = static_cast<int>(call.block.x * call.block.y * call.block.z);
  now.clocks.clear();
  take_shared_memory(call.shared_bytes);
  blockDim = call.block;
  gridDim = call.grid;
  start_counting(call);
  struct End {
    ~End() {
      execution().call = nullptr;
      end_counting();
      trim_shadows();
    }
  } end;
  for (const uint64_t b : order) {
    runner().run({static_cast<unsigned int>(b % call.grid.x),
                  static_cast<unsigned int>(b / call.grid.x % call.grid.y),
                  static_cast<unsigned int>(b / call.grid.x / call.grid.y)},
                 random);
  }
}

int lane() { return execution().lane; }
void* shared_memory() { return execution().shared; }
void sync_block() { runner().wait_block(); }
const unsigned char* meet_warp(unsigned int mask, const void* mine, size_t bytes) {
  return runner().meet(mask, mine, bytes);
}

}  // namespace colibri_sim
