#include "coordinator/rank_tracer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "transport/liveness.h"

namespace colibri {
namespace {

using Clock = TraceLog::Clock;

constexpr int kNumLooks = 5;                // at each worker's clock; the fastest answer counts
constexpr int64_t kAnswerTimeoutMs = 5000;  // of a clock or a start
constexpr int64_t kWriteTimeoutMs = 30000;

int64_t ns(Clock::time_point at) { return std::chrono::nanoseconds(at.time_since_epoch()).count(); }

// An answer that is no error.
const ControlView& checked(const ControlView& answer, int rank) {
  if (answer.kind() != ControlKind::kStatus || answer.as<StatusBody>().is_error == 0) {
    return answer;
  }
  const ErrorInfo error = error_of(answer);
  fail(error.kind, "rank ", rank, ": ", error.message);
}

}  // namespace

std::string trace_file_name(int rank) { return "trace.rank" + std::to_string(rank) + ".json"; }

// A message to a worker and the room for its answer, which outlive a wait that fails.
struct RankTracer::Question {
  int rank = 0;
  std::vector<std::byte> message, reply;
  Pending pending;
  int64_t timeout_ms = 0;
};

std::vector<int> RankTracer::workers() const {
  std::vector<int> ranks;
  if (transport_ == nullptr) return ranks;
  const auto dead = transport_->dead_ranks();
  for (int rank = 0; rank < transport_->size(); ++rank) {
    if (rank == transport_->rank()) continue;
    if (std::find(dead.begin(), dead.end(), rank) == dead.end()) ranks.push_back(rank);
  }
  return ranks;
}

std::shared_ptr<RankTracer::Question> RankTracer::ask(int rank, const TraceBody& body,
                                                      const std::string& text) const {
  const auto question = std::make_shared<Question>();
  question->rank = rank;
  question->message = encode_control(transport_->rank(), transport_->epoch(), body, text);
  question->reply.resize(kMaxControlBytes);
  question->timeout_ms = body.command == TraceCommand::kStop ? kWriteTimeoutMs : kAnswerTimeoutMs;
  const SendOp send{rank, Channel::kControl, question->message.data(), question->message.size()};
  const RecvOp recv{rank, Channel::kControl, question->reply.data(), question->reply.size()};
  question->pending = transport_->post({{&send, 1}, {&recv, 1}}, nullptr);
  return question;
}

ControlView RankTracer::answer(const std::shared_ptr<Question>& question) const {
  try {
    transport_->wait({&question->pending, 1}, Deadline::after_ms(question->timeout_ms),
                     "a worker's answer about its trace");
  } catch (...) {
    transport_->keep(question);
    throw;
  }
  const size_t bytes = transport_->take_received_bytes(question->pending).at(0);
  return checked(
      parse_control({question->reply.data(), bytes}, question->rank, transport_->epoch()),
      question->rank);
}

// Time 0 by the worker's clock. Its answer came at some moment between question and answer: half of
// that time is the error. Processes of one host have one clock.
TraceClock RankTracer::clock_of(int rank, Clock::time_point origin) const {
  std::optional<TraceClock> best;
  for (int look = 0; look < kNumLooks; ++look) {
    const auto asked = Clock::now();
    const auto question = ask(rank, {.command = TraceCommand::kClock}, "");
    const auto body = answer(question).as<TraceBody>();
    const auto half = (Clock::now() - asked) / 2;
    if (body.host_hash == own_identity().host_hash) return {.origin = origin};
    const int64_t ahead = body.clock_ns - ns(asked + half);
    const TraceClock clock{.origin = origin + std::chrono::nanoseconds(ahead),
                           .error_ns = std::chrono::nanoseconds(half).count()};
    if (!best || clock.error_ns < best->error_ns) best = clock;
  }
  return *best;
}

std::string RankTracer::path_of(int rank) const { return directory_ + "/" + trace_file_name(rank); }

void RankTracer::start_workers(Clock::time_point origin) const {
  for (const int rank : workers()) {
    const TraceClock clock = clock_of(rank, origin);
    answer(ask(
        rank,
        {.command = TraceCommand::kStart, .clock_ns = ns(clock.origin), .error_ns = clock.error_ns},
        ""));
  }
}

// Those that had begun. What they answer, those that had not included, does not matter.
void RankTracer::drop_workers() const {
  for (const int rank : workers()) {
    try {
      answer(ask(rank, {.command = TraceCommand::kStop}, ""));
    } catch (const Error&) {
      continue;
    }
  }
}

void RankTracer::start(const std::string& directory) {
  if (is_active_) fail(ErrorKind::kInput, "a trace is under way already");
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    const bool is_file = error == std::errc::not_a_directory || error == std::errc::file_exists;
    fail(is_file ? ErrorKind::kInput : ErrorKind::kEnvironment, "cannot make the directory '",
         directory, "' for a trace: ", error.message());
  }
  directory_ = std::filesystem::absolute(directory).string();  // workers may stand elsewhere
  const auto origin = Clock::now();
  try {
    start_workers(origin);
  } catch (...) {
    drop_workers();
    throw;
  }
  log_.start({.origin = origin});
  forward_.set_trace(&log_);
  is_active_ = true;
}

std::vector<std::string> RankTracer::stop() {
  if (!is_active_) fail(ErrorKind::kInput, "no trace is under way");
  is_active_ = false;
  forward_.set_trace(nullptr);
  std::vector<std::shared_ptr<Question>> questions;
  for (const int rank : workers()) {
    questions.push_back(ask(rank, {.command = TraceCommand::kStop}, path_of(rank)));
  }
  std::vector<std::string> names = {trace_file_name(0)};
  std::optional<Error> failed;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      if (!failed) failed = error;
    }
  };
  attempt([&] { log_.write(path_of(0)); });
  for (const auto& question : questions) {
    attempt([&] { answer(question); });
    names.push_back(trace_file_name(question->rank));
  }
  if (failed) throw *failed;
  return names;
}

}  // namespace colibri
