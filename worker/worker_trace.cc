#include "worker/worker_trace.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "transport/liveness.h"

namespace colibri {
namespace {

constexpr int64_t kAnswerTimeoutMs = 5000;

int64_t now_ns() {
  return std::chrono::nanoseconds(TraceLog::Clock::now().time_since_epoch()).count();
}

}  // namespace

void WorkerTrace::obey(const ControlView& command, int coordinator) {
  const auto body = command.as<TraceBody>();
  switch (body.command) {
    case TraceCommand::kClock:
      return answer(encode_control(transport_.rank(), transport_.epoch(),
                                   TraceBody{.command = TraceCommand::kClock,
                                             .clock_ns = now_ns(),
                                             .host_hash = own_identity().host_hash}),
                    coordinator);
    case TraceCommand::kStart:
      return answer(start(body), coordinator);
    case TraceCommand::kStop:
      return answer(stop(command.text), coordinator);
  }
}

std::vector<std::byte> WorkerTrace::start(const TraceBody& body) {
  if (log_ == nullptr) {
    return refused(Error(ErrorKind::kUnsupported, "this worker keeps no trace"));
  }
  using Clock = TraceLog::Clock;
  const auto origin =
      std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(body.clock_ns));
  log_->start({.origin = Clock::time_point(origin), .error_ns = body.error_ns});
  is_on_ = true;
  return encode_control(transport_.rank(), transport_.epoch(), StatusBody{});
}

std::vector<std::byte> WorkerTrace::stop(std::string_view path) {
  if (!is_on_) return refused(Error(ErrorKind::kInput, "this worker was not told to trace"));
  is_on_ = false;
  if (path.empty()) {
    log_->start({});
    return encode_control(transport_.rank(), transport_.epoch(), StatusBody{});
  }
  try {
    const std::filesystem::path file(path);
    std::error_code ignored;  // on another machine the directory may be missing; writing tells
    std::filesystem::create_directories(file.parent_path(), ignored);
    log_->write(file.string());
  } catch (const Error& error) {
    return refused(error);
  }
  return encode_control(transport_.rank(), transport_.epoch(), StatusBody{});
}

std::vector<std::byte> WorkerTrace::refused(const Error& error) const {
  return encode_error(transport_.rank(), transport_.epoch(), {error.kind(), error.what()});
}

void WorkerTrace::answer(std::vector<std::byte> message, int coordinator) {
  const auto kept = std::make_shared<std::vector<std::byte>>(std::move(message));
  const SendOp send{coordinator, Channel::kControl, kept->data(), kept->size()};
  const Pending pending = transport_.post({{&send, 1}, {}}, nullptr);
  try {
    transport_.wait({&pending, 1}, Deadline::after_ms(kAnswerTimeoutMs), "answering a trace");
  } catch (...) {
    transport_.keep(kept);  // it may still be under way
    throw;
  }
}

}  // namespace colibri
