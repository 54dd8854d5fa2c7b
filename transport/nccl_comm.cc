#include "transport/nccl_comm.h"

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "base/staging_buffer.h"
#include "transport/collectives.h"
#include "transport/nccl_library.h"

namespace colibri {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

// Sizes of the first exchange of every pair: one for each way in which NCCL moves small and large.
constexpr size_t kMostWarmUpBytes = size_t{256} << 10;
constexpr size_t kWarmUpBytes[] = {0, 64, kMostWarmUpBytes};
constexpr int64_t kEndTimeoutMs = 5000;

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

// What kind of failure this is once ranks are connected.
ErrorKind kind_of(ncclResult_t result) {
  const bool is_ours = result == ncclInvalidArgument || result == ncclInvalidUsage;
  return is_ours ? ErrorKind::kInternal : ErrorKind::kRankLost;
}

// Between two looks: spin, then let others run, then sleep.
class Patience {
 public:
  explicit Patience(bool may_spin) : may_spin_(may_spin) {}
  void pause() {
    constexpr int kSpins = 2000, kYields = 200;
    ++num_looks_;
    if (may_spin_ && num_looks_ < kSpins) return;
    if (num_looks_ < kSpins + kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(may_spin_ ? 20 : 100));
    }
  }

 private:
  bool may_spin_;
  int num_looks_ = 0;
};

// Leaves the process with 4 unless destroyed before the deadline: nothing else ends an init that
// blocks.
class StartWatchdog {
 public:
  StartWatchdog(int rank, int64_t timeout_ms)
      : thread_([=](std::stop_token stop) { watch(stop, rank, timeout_ms); }) {}

 private:
  static void watch(const std::stop_token& stop, int rank, int64_t timeout_ms) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    stopped.wait_for(lock, stop, std::chrono::milliseconds(timeout_ms), [] { return false; });
    if (stop.stop_requested()) return;
    std::fprintf(stderr,
                 "colibri: rank %d: NCCL did not start within %lld ms (a rank did not come); "
                 "leaving\n",
                 rank, static_cast<long long>(timeout_ms));
    std::fflush(nullptr);
    _exit(exit_code(ErrorKind::kTimeout));
  }

  std::jthread thread_;
};

// What the first exchange moves. Host memory is pinned: a copy to other memory would wait for an
// exchange without end.
struct Meeting {
  explicit Meeting(Device& device)
      : stream(device.make_stream()),
        out(device, kMostWarmUpBytes),
        in(device, kMostWarmUpBytes),
        pattern(device, kMostWarmUpBytes),
        back(device, kMostWarmUpBytes) {}

  std::unique_ptr<Stream> stream;
  Buffer out, in;
  StagingBuffer pattern, back;
};

class Communicator : public NcclComm {
 public:
  Communicator(Device& device, const NcclOptions& options)
      : device_(device), options_(options), marker_(device.make_event()) {
    const Deadline deadline = Deadline::after_ms(options.start_timeout_ms);
    init(deadline);
    try {
      meet_all(deadline);
    } catch (...) {
      abort();
      throw;
    }
  }
  ~Communicator() override { end(); }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.num_ranks; }
  bool can_be_captured() const override { return true; }
  bool is_aborted() const override { return comm_ == nullptr; }
  void abandon() override { abort(); }
  void abort() override {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }

  void post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
            Stream& stream) override;
  using NcclComm::wait;
  void wait(Stream& stream, const Deadline& deadline, const std::string& what,
            const std::function<void()>& meanwhile) override;
  void wait(const Event& event, const Deadline& deadline, const std::string& what) override;
  void all_gather(const void* send, void* recv, size_t bytes, Stream& stream) override {
    check_alive();
    settle(ncclAllGather(send, recv, bytes, ncclUint8, comm_, native(stream)), "an all-gather");
  }
  void broadcast(void* data, size_t bytes, int root, Stream& stream) override {
    check_alive();
    settle(ncclBroadcast(data, data, bytes, ncclUint8, root, comm_, native(stream)), "a broadcast");
  }

 private:
  void init(const Deadline& deadline);
  void meet_all(const Deadline& deadline);
  void exchange_with(int peer, size_t bytes, Meeting& meeting, const Deadline& deadline);
  void end();
  void check_alive() const {
    check(comm_ != nullptr, "rank ", options_.rank, " uses an NCCL communicator that was aborted");
  }
  void settle(ncclResult_t issued, const std::string& what);
  ncclResult_t async_error() const;
  std::string waited_for() const;
  [[noreturn]] void give_up(ErrorKind kind, const std::string& reason);
  template <class Done>
  void poll_until(Done&& is_done, const Deadline& deadline, const std::string& what);

  Device& device_;
  NcclOptions options_;
  std::unique_ptr<Event> marker_;
  ncclComm_t comm_ = nullptr;
};

ncclResult_t Communicator::async_error() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

// ": waits for rank 2 (step 17, ...)", or nothing.
std::string Communicator::waited_for() const {
  const std::string who = options_.silent ? options_.silent() : "";
  return who.empty() ? "" : "; waited for " + who;
}

void Communicator::give_up(ErrorKind kind, const std::string& reason) {
  const std::string message =
      "rank " + std::to_string(options_.rank) + ": NCCL: " + reason + waited_for();
  abort();
  throw Error(kind, message);
}

// Ends when `is_done` says so; by NCCL's error, by the caller's poll, by an error of other work or
// at the deadline with the communicator aborted. `is_done` is asked once more after the deadline,
// for a process that was stopped may find that all is done.
template <class Done>
void Communicator::poll_until(Done&& is_done, const Deadline& deadline, const std::string& what) {
  Patience patience(options_.may_spin);
  for (bool is_last = false;; patience.pause()) {
    const ncclResult_t state = async_error();
    if (state != ncclSuccess && state != ncclInProgress) {
      give_up(kind_of(state),
              what + " failed: " + ncclGetErrorString(state) + ": " + ncclGetLastError(comm_));
    }
    try {
      if (is_done(state)) return;
      if (options_.poll) options_.poll();
    } catch (...) {
      abort();
      throw;
    }
    if (is_last) {
      give_up(ErrorKind::kTimeout,
              what + " did not end within " + std::to_string(deadline.waited_ms()) + " ms");
    }
    is_last = deadline.expired();
  }
}

void Communicator::init(const Deadline& deadline) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = options_.blocks ? 1 : 0;
  ncclUniqueId id;
  std::memcpy(id.internal, options_.id.data(), sizeof id.internal);
  std::optional<StartWatchdog> watchdog;
  if (options_.blocks) watchdog.emplace(options_.rank, deadline.remaining_ms());
  ncclResult_t state =
      ncclCommInitRankConfig(&comm_, options_.num_ranks, id, options_.rank, &config);
  if (state == ncclSuccess || state == ncclInProgress) {
    try {
      poll_until([](ncclResult_t now) { return now == ncclSuccess; }, deadline,
                 "the start of " + std::to_string(options_.num_ranks) + " ranks");
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInternal && error.kind() != ErrorKind::kRankLost) throw;
      fail(ErrorKind::kEnvironment, error.what(), " (NCCL_DEBUG=INFO tells more)");
    }
  }
  const std::string reason = ncclGetLastError(nullptr);
  abort();
  fail(ErrorKind::kEnvironment, "rank ", options_.rank,
       ": NCCL does not start: ", ncclGetErrorString(state), ": ", reason,
       " (NCCL_DEBUG=INFO tells more)");
}

// After a call that put work on a stream, or soon will.
void Communicator::settle(ncclResult_t issued, const std::string& what) {
  if (issued != ncclSuccess && issued != ncclInProgress) {
    give_up(kind_of(issued),
            what + " is refused: " + ncclGetErrorString(issued) + ": " + ncclGetLastError(comm_));
  }
  if (issued == ncclSuccess) return;
  poll_until([](ncclResult_t now) { return now == ncclSuccess; },
             Deadline::after_ms(options_.post_timeout_ms), what);
}

void Communicator::post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
                        Stream& stream) {
  check_alive();
  ncclResult_t first = ncclGroupStart();
  const auto note = [&](ncclResult_t result) {
    if (first == ncclSuccess && result != ncclInProgress) first = result;
  };
  for (const DeviceSend& one : sends) {
    note(ncclSend(one.data, one.bytes, ncclUint8, one.peer, comm_, native(stream)));
  }
  for (const DeviceRecv& one : recvs) {
    note(ncclRecv(one.data, one.bytes, ncclUint8, one.peer, comm_, native(stream)));
  }
  const ncclResult_t ended = ncclGroupEnd();
  settle(first != ncclSuccess ? first : ended, "a group");
}

void Communicator::wait(Stream& stream, const Deadline& deadline, const std::string& what,
                        const std::function<void()>& meanwhile) {
  check_alive();
  device_.record(*marker_, stream);
  const auto is_done = [&](ncclResult_t) {
    if (device_.reached(*marker_)) return true;
    if (meanwhile) meanwhile();
    return false;
  };
  poll_until(is_done, deadline, what);
}

void Communicator::wait(const Event& event, const Deadline& deadline, const std::string& what) {
  check_alive();
  poll_until([&](ncclResult_t) { return device_.reached(event); }, deadline, what);
}

void Communicator::exchange_with(int peer, size_t bytes, Meeting& meeting,
                                 const Deadline& deadline) {
  const std::string what = "the first exchange with rank " + std::to_string(peer);
  const DeviceSend send{peer, meeting.out.data(), bytes};
  const DeviceRecv recv{peer, meeting.in.data(), bytes};
  post({&send, 1}, {&recv, 1}, *meeting.stream);
  const auto* back = meeting.back.as<unsigned char>();
  device_.copy(meeting.back.as<char>(), meeting.in.data(), bytes, *meeting.stream);
  wait(*meeting.stream, deadline, what);
  const bool is_right =
      std::all_of(back, back + bytes, [&](int byte) { return byte == (peer & 0xff); });
  if (!is_right) give_up(ErrorKind::kInternal, "the bytes of " + what + " came out wrong");
}

// In each round a rank meets one other, so that a rank that waits knows for whom.
void Communicator::meet_all(const Deadline& deadline) {
  const int ranks = options_.num_ranks;
  Meeting meeting(device_);
  auto* pattern = meeting.pattern.as<unsigned char>();
  std::fill_n(pattern, kMostWarmUpBytes, static_cast<unsigned char>(options_.rank));
  device_.copy(meeting.out.data(), pattern, kMostWarmUpBytes, *meeting.stream);
  for (const size_t bytes : kWarmUpBytes) {
    for (int round = 0; round < ranks; ++round) {
      exchange_with((round - options_.rank + ranks) % ranks, bytes, meeting, deadline);
    }
  }
}

// A communicator of a run that goes well ends with its peers, in bounded time; else by abort.
void Communicator::end() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) return abort();
  const Deadline deadline = Deadline::after_ms(kEndTimeoutMs);
  ncclResult_t state = ncclCommFinalize(comm_);
  Patience patience(options_.may_spin);
  while (state == ncclInProgress && !deadline.expired()) {
    state = async_error();
    patience.pause();
  }
  if (state != ncclSuccess) return abort();
  ncclCommDestroy(std::exchange(comm_, nullptr));
}

}  // namespace

bool has_nccl() { return nccl_can_be_called(); }

std::string nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

NcclId make_nccl_id() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) {
    fail(ErrorKind::kEnvironment, "NCCL makes no id: ", ncclGetErrorString(result), ": ",
         ncclGetLastError(nullptr));
  }
  NcclId bytes;
  std::memcpy(bytes.data(), id.internal, bytes.size());
  return bytes;
}

NcclId share_nccl_id(Transport& host, const Deadline& deadline) {
  NcclId id{};
  const std::string what = "the id of NCCL";
  std::vector<std::byte> told;
  if (host.rank() == 0) {
    try {
      id = make_nccl_id();
    } catch (...) {
      colibri::broadcast(host, {}, deadline, what);  // the others learn that there is none
      throw;
    }
    told = colibri::broadcast(host, id, deadline, what);
  } else {
    told = colibri::broadcast(host, {}, deadline, what);
  }
  if (told.size() != id.size()) {
    fail(ErrorKind::kEnvironment, "rank ", host.rank(), ": rank 0 could not make an id of NCCL");
  }
  std::copy(told.begin(), told.end(), id.begin());
  return id;
}

std::unique_ptr<NcclComm> make_nccl_comm(Device& device, const NcclOptions& options) {
  check(device.place() == Place::kDevice, "NCCL moves device memory alone");
  return std::make_unique<Communicator>(device, options);
}

}  // namespace colibri
