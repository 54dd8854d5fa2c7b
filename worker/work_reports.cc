#include "worker/work_reports.h"

#include <atomic>

#include "base/deadline.h"

namespace colibri {
namespace {

// Far above a step's usual time, far below any deadline.
constexpr std::chrono::milliseconds kBetweenLooks(100);
// A mark is layer * kStages + stage.
constexpr uint64_t kStages = 4;

}  // namespace

WorkReports::WorkReports(const Backend& backend, Transport& transport, int coordinator)
    : backend_(backend),
      transport_(transport),
      coordinator_(coordinator),
      word_(static_cast<uint64_t*>(backend.device->allocate_mapped(sizeof(uint64_t)))) {}

WorkReports::~WorkReports() { backend_.device->release_staging(word_, sizeof(uint64_t)); }

void WorkReports::begin_epoch() {
  if (message_) transport_.keep(message_);  // it may be under way still
  message_.reset();
  is_sending_ = false;
  num_done_ = 0;
}

void WorkReports::begin() {
  std::atomic_ref(*word_).store(0);
  told_ = 0;
  next_look_ = Clock::now() + kBetweenLooks;
}

void WorkReports::mark(int layer, WorkStage stage, Stream& stream) {
  const uint64_t value = static_cast<uint64_t>(layer) * kStages + static_cast<uint64_t>(stage);
  backend_.ops->mark_progress({.word = word_, .value = value}, stream);
}

void WorkReports::look() {
  const auto now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  const uint64_t mark = std::atomic_ref(*word_).load();
  if (mark == told_ || (is_sending_ && !transport_.test(pending_))) return;
  told_ = mark;
  send(mark);
}

void WorkReports::done() {
  if (is_sending_) transport_.wait({&pending_, 1}, Deadline::never(), "telling what is done");
  ++num_done_;
  send(0);
}

void WorkReports::send(uint64_t mark) {
  const WorkDoneBody body{.num_done = num_done_,
                          .layer = static_cast<int32_t>(mark / kStages),
                          .stage = static_cast<WorkStage>(mark % kStages)};
  message_ = std::make_shared<std::vector<std::byte>>(
      encode_control(transport_.rank(), transport_.epoch(), body));
  const SendOp send{coordinator_, Channel::kResults, message_->data(), message_->size()};
  pending_ = transport_.post({{&send, 1}, {}}, nullptr);
  is_sending_ = true;
}

}  // namespace colibri
