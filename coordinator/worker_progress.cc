#include "coordinator/worker_progress.h"

#include <algorithm>
#include <tuple>

#include "base/rank_list.h"
#include "transport/control.h"

namespace colibri {
namespace {

constexpr size_t kMessageBytes = sizeof(ControlHeader) + sizeof(WorkDoneBody);

// " (made the results of layer 4)".
std::string where(int32_t layer, WorkStage stage) {
  if (stage == WorkStage::kNone) return " (no results yet)";
  return (stage == WorkStage::kMade ? " (made the results of layer "
                                    : " (sent the results of layer ") +
         std::to_string(layer) + ")";
}

}  // namespace

WorkerProgress::WorkerProgress(Transport& transport, const std::vector<int>& workers)
    : transport_(transport), buffers_(std::make_shared<Buffers>()) {
  for (const int rank : workers) {
    workers_.push_back({.rank = rank, .pending = {}});
    buffers_->emplace_back(kMessageBytes);
  }
}

WorkerProgress::~WorkerProgress() {
  if (num_announced_ > 0) transport_.keep(buffers_);
}

// Messages are taken here too, so that they do not pile up.
void WorkerProgress::announced() {
  if (num_announced_++ > 0) return take_messages();
  for (size_t i = 0; i < workers_.size(); ++i) post(i);
}

void WorkerProgress::post(size_t worker_idx) {
  std::vector<std::byte>& buffer = (*buffers_)[worker_idx];
  const RecvOp recv{workers_[worker_idx].rank, Channel::kResults, buffer.data(), buffer.size()};
  workers_[worker_idx].pending = transport_.post({{}, {&recv, 1}}, nullptr);
}

void WorkerProgress::take_messages() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    while (transport_.test(worker.pending)) {
      const size_t bytes = transport_.take_received_bytes(worker.pending).at(0);
      const ControlView view =
          parse_control({(*buffers_)[i].data(), bytes}, worker.rank, transport_.epoch());
      const auto body = view.as<WorkDoneBody>();
      worker.num_done = body.num_done;
      worker.layer = body.layer;
      worker.stage = body.stage;
      post(i);
    }
  }
}

std::string WorkerProgress::late_text() {
  late_.clear();
  if (num_announced_ == 0) return "";
  take_messages();
  const auto done = [](const Worker& worker) {
    return std::tuple(worker.num_done, worker.layer, worker.stage);
  };
  const auto by_done = [&](const Worker& a, const Worker& b) { return done(a) < done(b); };
  const auto last = std::min_element(workers_.begin(), workers_.end(), by_done);
  if (last == workers_.end() || last->num_done >= num_announced_) return "";
  for (const Worker& worker : workers_) {
    if (done(worker) == done(*last)) late_.push_back(worker.rank);
  }
  return rank_list(late_) + where(last->layer, last->stage);
}

}  // namespace colibri
