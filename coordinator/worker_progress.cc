#include "coordinator/worker_progress.h"

#include "transport/control.h"

namespace colibri {
namespace {

constexpr size_t kMessageBytes = sizeof(ControlHeader) + sizeof(WorkDoneBody);

}  // namespace

WorkerProgress::WorkerProgress(Transport& transport)
    : transport_(transport), buffers_(std::make_shared<Buffers>()) {
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank == transport.rank()) continue;
    workers_.push_back({.rank = rank, .pending = {}});
    buffers_->emplace_back(kMessageBytes);
  }
  for (size_t i = 0; i < workers_.size(); ++i) post(i);
}

WorkerProgress::~WorkerProgress() { transport_.keep(buffers_); }

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
      worker.num_done = view.as<WorkDoneBody>().num_done;
      post(i);
    }
  }
}

std::string WorkerProgress::late_ranks() {
  take_messages();
  std::vector<int> late;
  for (const Worker& worker : workers_) {
    if (worker.num_done < num_announced_) late.push_back(worker.rank);
  }
  if (late.empty()) return "";
  std::string text = late.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < late.size(); ++i) {
    if (i > 0) text += i + 1 == late.size() ? " and " : ", ";
    text += std::to_string(late[i]);
  }
  return text;
}

}  // namespace colibri
