#include "block_runner.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "memory.h"
#include "races.h"
#include "simulated_control.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace colibri_sim {
namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = 256 * 1024;
constexpr int kWarpSize = 32;

struct Thread {
  uint3 idx{};
  int warp = 0;
  int lane = 0;
};

enum class State : unsigned char { kReady, kAtBlockBarrier, kAtWarpMeeting, kDone };

struct Fibre {
  context::fiber own;     // what to resume to go on with this thread
  context::fiber caller;  // where to go back to
  Thread thread;
  State state = State::kReady;
  unsigned int mask = 0;
  int parity = 0;  // meetings alternate between two tables, so that reading needs no second wait
};

struct Warp {
  unsigned char table[2][kWarpSize * kMeetingBytes];
};

class BlockRunner {
 public:
  void run(const KernelCall& call, uint3 block_idx, std::mt19937_64& random);
  Fibre& current() { return *current_; }
  bool running() const { return current_ != nullptr; }
  void* shared() { return shared_.data(); }
  void wait_block();
  const unsigned char* meet(unsigned int mask, const void* mine, size_t bytes);
  [[noreturn]] void fail(const std::string& reason);
  const KernelCall& kernel() const { return *call_; }

 private:
  void prepare(const KernelCall& call, uint3 block_idx);
  void start(Fibre& fibre);
  void step(Fibre& fibre);
  void release_block();
  bool release_warp(int warp, unsigned int mask);
  void release_waiting();
  [[noreturn]] void report_stuck();
  void suspend(State state);
  std::string where(const Fibre& fibre) const;

  const KernelCall* call_ = nullptr;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<Fibre*> ready_;
  std::vector<Warp> warps_;
  std::vector<unsigned char> shared_;
  Fibre* current_ = nullptr;
  int num_threads_ = 0, num_done_ = 0, num_at_barrier_ = 0;
  std::string fault_;
};

BlockRunner& runner() {
  static BlockRunner one;
  return one;
}

void BlockRunner::prepare(const KernelCall& call, uint3 block_idx) {
  call_ = &call;
  blockIdx = block_idx;
  blockDim = call.block;
  gridDim = call.grid;
  num_threads_ = static_cast<int>(call.block.x * call.block.y * call.block.z);
  num_done_ = num_at_barrier_ = 0;
  fault_.clear();
  shared_.assign(call.shared_bytes, kPoison);
  warps_.resize(static_cast<size_t>((num_threads_ + kWarpSize - 1) / kWarpSize));
  while (fibres_.size() < static_cast<size_t>(num_threads_)) {
    fibres_.push_back(std::make_unique<Fibre>());
  }
  ready_.clear();
  for (int i = 0; i < num_threads_; ++i) {
    Fibre& fibre = *fibres_[static_cast<size_t>(i)];
    const auto n = static_cast<unsigned int>(i);
    fibre.thread = {
        {n % call.block.x, n / call.block.x % call.block.y, n / (call.block.x * call.block.y)},
        i / kWarpSize,
        i % kWarpSize};
    fibre.state = State::kReady;
    fibre.parity = 0;
    ready_.push_back(&fibre);
    if (!fibre.own) start(fibre);
  }
}

// A fibre lives on from block to block: it runs the kernel's body, says so and waits.
void BlockRunner::start(Fibre& fibre) {
  fibre.own = context::fiber(std::allocator_arg, context::fixedsize_stack(kStackBytes),
                             [this, &fibre](context::fiber&& caller) {
                               fibre.caller = std::move(caller);
                               for (;;) {
                                 try {
                                   call_->body();
                                 } catch (const KernelFault& fault) {
                                   fault_ = fault.what();
                                 }
                                 suspend(State::kDone);
                               }
                               return std::move(fibre.caller);
                             });
}

void BlockRunner::suspend(State state) {
  Fibre& fibre = *current_;
  fibre.state = state;
  fibre.caller = std::move(fibre.caller).resume();
}

void BlockRunner::step(Fibre& fibre) {
  current_ = &fibre;
  threadIdx = fibre.thread.idx;
  fibre.own = std::move(fibre.own).resume();
  current_ = nullptr;
  if (fibre.state == State::kDone) ++num_done_;
  if (fibre.state == State::kAtBlockBarrier) ++num_at_barrier_;
}

void BlockRunner::run(const KernelCall& call, uint3 block_idx, std::mt19937_64& random) {
  prepare(call, block_idx);
  while (num_done_ < num_threads_) {
    if (ready_.empty()) release_waiting();
    const size_t pick = random() % ready_.size();
    Fibre& fibre = *ready_[pick];
    ready_[pick] = ready_.back();
    ready_.pop_back();
    step(fibre);
    if (!fault_.empty()) {
      fibres_.clear();  // unwinds the threads that wait
      throw KernelFault(fault_);
    }
    if (fibre.state == State::kAtWarpMeeting) release_warp(fibre.thread.warp, fibre.mask);
    if (num_at_barrier_ == num_threads_) release_block();
  }
}

void BlockRunner::release_block() {
  for (int i = 0; i < num_threads_; ++i) {
    Fibre& fibre = *fibres_[static_cast<size_t>(i)];
    fibre.state = State::kReady;
    ready_.push_back(&fibre);
  }
  num_at_barrier_ = 0;
}

// Lets the lanes of `mask` go on if all are there.
bool BlockRunner::release_warp(int warp, unsigned int mask) {
  const int first = warp * kWarpSize, end = std::min(first + kWarpSize, num_threads_);
  const auto lane = [&](int i) -> Fibre& { return *fibres_[static_cast<size_t>(i)]; };
  unsigned int there = 0;
  for (int i = first; i < end; ++i) {
    if (lane(i).state == State::kAtWarpMeeting && lane(i).mask == mask) there |= 1u << (i - first);
  }
  if ((there & mask) != mask) return false;
  for (int i = first; i < end; ++i) {
    if ((mask >> (i - first) & 1u) == 0) continue;
    lane(i).state = State::kReady;
    ready_.push_back(&lane(i));
  }
  return true;
}

void BlockRunner::release_waiting() { report_stuck(); }

std::string BlockRunner::where(const Fibre& fibre) const {
  const uint3 t = fibre.thread.idx;
  const auto three = [](unsigned int x, unsigned int y, unsigned int z) {
    return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
  };
  return call_->name + " block " + three(blockIdx.x, blockIdx.y, blockIdx.z) + " thread " +
         three(t.x, t.y, t.z);
}

void BlockRunner::report_stuck() {
  for (int i = 0; i < num_threads_; ++i) {
    const Fibre& fibre = *fibres_[static_cast<size_t>(i)];
    if (fibre.state == State::kAtBlockBarrier || fibre.state == State::kAtWarpMeeting) {
      const std::string message = where(fibre) + " waits for threads that never come (" +
                                  std::to_string(num_done_) + " of " +
                                  std::to_string(num_threads_) + " have ended)";
      fibres_.clear();
      throw KernelFault(message);
    }
  }
  throw KernelFault(call_->name + " cannot go on");
}

void BlockRunner::fail(const std::string& reason) {
  throw KernelFault(where(*current_) + ": " + reason);
}

void BlockRunner::wait_block() { suspend(State::kAtBlockBarrier); }

const unsigned char* BlockRunner::meet(unsigned int mask, const void* mine, size_t bytes) {
  Fibre& fibre = *current_;
  if ((mask >> fibre.thread.lane & 1u) == 0) fail("meets a warp without naming its own lane");
  unsigned char* table = warps_[static_cast<size_t>(fibre.thread.warp)].table[fibre.parity];
  fibre.parity ^= 1;
  if (bytes > 0) {
    std::memcpy(table + static_cast<size_t>(fibre.thread.lane) * kMeetingBytes, mine, bytes);
  }
  fibre.mask = mask;
  suspend(State::kAtWarpMeeting);
  return table;
}

}  // namespace

void run_kernel(const KernelCall& call, uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint64_t blocks = uint64_t{call.grid.x} * call.grid.y * call.grid.z;
  std::vector<uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (const uint64_t b : order) {
    const uint3 idx{static_cast<unsigned int>(b % call.grid.x),
                    static_cast<unsigned int>(b / call.grid.x % call.grid.y),
                    static_cast<unsigned int>(b / call.grid.x / call.grid.y)};
    runner().run(call, idx, random);
  }
}

int lane() { return runner().current().thread.lane; }
void* shared_memory() { return runner().shared(); }
void sync_block() { runner().wait_block(); }
const unsigned char* meet_warp(unsigned int mask, const void* mine, size_t bytes) {
  return runner().meet(mask, mine, bytes);
}
void count_access(Access, const void*, size_t) {}
KernelCounters counters_of(std::string_view) { return {}; }
std::vector<std::string> counted_kernels() { return {}; }
void reset_counters() {}
void forget_lookups() {}
void fail_kernel(const char* reason) { runner().fail(reason); }

bool describe_running_thread(char* text, size_t size) {
  if (!runner().running()) return false;
  const uint3 t = threadIdx, b = blockIdx;
  std::snprintf(text, size, "%s block (%u, %u, %u) thread (%u, %u, %u)",
                runner().kernel().name.c_str(), b.x, b.y, b.z, t.x, t.y, t.z);
  return true;
}

}  // namespace colibri_sim
