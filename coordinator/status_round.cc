#include "coordinator/status_round.h"

#include <algorithm>

#include "base/backoff.h"
#include "base/error.h"
#include "base/rank_list.h"

namespace colibri {

StatusRound::StatusRound(Transport& transport, Order order)
    : transport_(transport), messages_(std::make_shared<Messages>()) {
  messages_->order = std::move(order.order);
  messages_->text = std::move(order.text);
  for (const int rank : order.workers) {
    messages_->workers.push_back({.rank = rank, .pending = {}, .answer = {}});
  }
  send();
  if (order.answered_under) {
    transport_.keep(messages_);  // the epoch gives the sends up, but they go on
    sends_.clear();
    transport_.set_epoch(*order.answered_under);
  }
  for (Worker& worker : messages_->workers) receive(worker);
}

StatusRound::~StatusRound() {
  const bool is_over = silent_ranks().empty();
  if (!is_over) transport_.keep(messages_);
}

void StatusRound::send() {
  for (const Worker& worker : messages_->workers) {
    std::vector<SendOp> sends = {
        {worker.rank, Channel::kControl, messages_->order.data(), messages_->order.size()}};
    if (!messages_->text.empty()) {
      sends.push_back(
          {worker.rank, Channel::kStartup, messages_->text.data(), messages_->text.size()});
    }
    sends_.push_back(transport_.post({sends, {}}, nullptr));
  }
}

void StatusRound::receive(Worker& worker) {
  worker.answer.resize(kMaxControlBytes);
  const RecvOp recv{worker.rank, Channel::kControl, worker.answer.data(), worker.answer.size()};
  worker.pending = transport_.post({{}, {&recv, 1}}, nullptr);
}

void StatusRound::take(Worker& worker) {
  const size_t bytes = transport_.take_received_bytes(worker.pending).at(0);
  worker.has_answered = true;
  const ControlView view =
      parse_control({worker.answer.data(), bytes}, worker.rank, transport_.epoch());
  if (view.kind() != ControlKind::kStatus) {
    fail(ErrorKind::kInput, "rank ", worker.rank, " answered an order with a message of kind ",
         static_cast<int>(view.kind()), ", want a status");
  }
  const bool is_error = view.as<StatusBody>().is_error != 0;
  if (is_error && !refusal_) refusal_ = Refusal{worker.rank, error_of(view)};
}

bool StatusRound::is_answered() {
  for (Worker& worker : messages_->workers) {
    if (!worker.has_answered && transport_.test(worker.pending)) take(worker);
  }
  // A worker that has answered has had the order, and its text before.
  if (!silent_ranks().empty()) return false;
  for (const Pending& pending : sends_) {
    if (!transport_.test(pending)) return false;
  }
  return true;
}

void StatusRound::wait(const Deadline& deadline, const std::string& what) {
  Backoff backoff(false);
  for (;;) {
    const bool is_last_look = deadline.expired();
    if (is_answered()) return;
    if (is_last_look) {
      fail(ErrorKind::kTimeout, "no answer of ", rank_list(silent_ranks()), " to ", what, " after ",
           deadline.waited_ms(), " ms");
    }
    backoff.pause();
  }
}

std::vector<int> StatusRound::silent_ranks() const {
  std::vector<int> ranks;
  for (const Worker& worker : messages_->workers) {
    if (!worker.has_answered) ranks.push_back(worker.rank);
  }
  return ranks;
}

}  // namespace colibri
