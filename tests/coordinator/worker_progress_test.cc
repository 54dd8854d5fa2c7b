// Who is named when a wait ends in vain.
#include "coordinator/worker_progress.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "transport/control.h"
#include "transport/local_transport.h"

namespace colibri {
namespace {

// A coordinator and workers 1, 2 and 3, who have been told of two pieces of work.
class WorkerProgressTest : public testing::Test {
 protected:
  WorkerProgressTest() {
    for (int rank = 0; rank < 4; ++rank) ends_.push_back(fabric_.endpoint(rank));
    progress_.emplace(*ends_[0], std::vector<int>{1, 2, 3});
    progress_->announced();
    progress_->announced();
  }

  void tell(int rank, uint64_t num_done, int32_t layer = 0, WorkStage stage = WorkStage::kNone) {
    Transport& worker = *ends_[static_cast<size_t>(rank)];
    const auto message = encode_control(
        rank, worker.epoch(), WorkDoneBody{.num_done = num_done, .layer = layer, .stage = stage});
    const SendOp send{0, Channel::kResults, message.data(), message.size()};
    const Pending pending = worker.post({{&send, 1}, {}}, nullptr);
    worker.wait({&pending, 1}, Deadline::after_ms(1000), "a report");
  }

  LocalFabric fabric_{4};
  std::vector<std::unique_ptr<Transport>> ends_;
  std::optional<WorkerProgress> progress_;
};

TEST_F(WorkerProgressTest, SilentWorkersAreAllNamed) {
  EXPECT_EQ(progress_->late_text(), "ranks 1, 2 and 3 (no results yet)");
}

TEST_F(WorkerProgressTest, WorkerThatHasDoneLessIsNamedAlone) {
  tell(1, 2);
  tell(2, 1);
  tell(3, 2);
  EXPECT_EQ(progress_->late_text(), "rank 2 (no results yet)");
}

TEST_F(WorkerProgressTest, WorkerThatIsALayerBehindIsNamedAlone) {
  tell(1, 1, 5, WorkStage::kMade);
  tell(2, 1, 5, WorkStage::kMade);
  tell(3, 1, 4, WorkStage::kSent);
  EXPECT_EQ(progress_->late_text(), "rank 3 (sent the results of layer 4)");
}

TEST_F(WorkerProgressTest, WorkerThatIsAStageBehindIsNamedAlone) {
  tell(1, 1, 5, WorkStage::kMade);
  tell(2, 1, 5, WorkStage::kSent);
  tell(3, 1, 5, WorkStage::kSent);
  EXPECT_EQ(progress_->late_text(), "rank 1 (made the results of layer 5)");
}

TEST_F(WorkerProgressTest, LastReportCounts) {
  tell(1, 1, 1, WorkStage::kSent);
  tell(2, 1, 2, WorkStage::kSent);
  tell(3, 1, 2, WorkStage::kSent);
  tell(1, 1, 3, WorkStage::kMade);
  EXPECT_EQ(progress_->late_text(), "ranks 2 and 3 (sent the results of layer 2)");
}

TEST_F(WorkerProgressTest, ThoseInTheTextAreTheLateRanks) {
  tell(2, 1);
  progress_->late_text();
  EXPECT_EQ(progress_->late_ranks(), (std::vector<int>{1, 3}));
}

TEST_F(WorkerProgressTest, NobodyIsLateWhenAllIsDone) {
  for (int rank = 1; rank < 4; ++rank) tell(rank, 2);
  EXPECT_EQ(progress_->late_text(), "");
}

}  // namespace
}  // namespace colibri
