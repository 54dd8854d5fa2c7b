// Experts that move between ranks, ranks as threads: by order, and because a rank is lost. What
// comes back never changes.

#include <gtest/gtest.h>

#include <thread>

#include "coordinator/dispatch_plan.h"
#include "coordinator/exchange.h"
#include "coordinator/expert_ranks.h"
#include "tests/support/expect_error.h"
#include "tests/worker/shard_rig.h"
#include "topology/placement_file.h"
#include "transport/local_transport.h"
#include "worker/shard_changes.h"
#include "worker/worker.h"

namespace colibri {
namespace {

constexpr int64_t kMaxTokens = 4;
constexpr int kNumRanks = 4;

using Layer = std::vector<std::vector<int32_t>>;

// An exchange as a path that is never begun: what ExpertRanks needs of one.
class PathOfExchange : public ExpertPath {
 public:
  explicit PathOfExchange(ExpertExchange& exchange) : exchange_(exchange) {}
  bool end_step(const Deadline&, Stream&) override { return true; }
  void begin(const RoutedTokens&, const Deadline&, Stream&) override {}
  void run_local(Stream&) override {}
  LocatedResults finish(const Deadline&, Stream&) override { return {}; }
  const LoadStats& load_stats() const override { return stats_; }
  ExchangeTotals totals() const override { return {}; }
  std::vector<int> late_ranks() const override { return exchange_.late_ranks(); }
  void give_up() override { exchange_.restart(); }

 private:
  ExpertExchange& exchange_;
  LoadStats stats_{1, 1, 1};
};

class MovingExpertsTest : public testing::Test {
 protected:
  // Experts 0 1 2 of both layers on ranks 1 2 3.
  MovingExpertsTest() : fabric_(kNumRanks), placement_(placed({{}, {0}, {1}, {2}})) {
    for (int rank = 1; rank < kNumRanks; ++rank) {
      workers_.emplace_back([this, rank] { work(rank); });
    }
    transport_ = fabric_.endpoint(0);
    shard_ = rig_.load(placement_, 0);
    changes_ = std::make_unique<ShardChanges>(rig_.checkpoint(), shape_, *shard_, rig_.backend());
    exchange_ = make_exchange({.transport = transport_.get(),
                               .local = shard_.get(),
                               .device = rig_.backend().device,
                               .ops = &rig_.ops(),
                               .hidden_size = rig_.config().hidden_size,
                               .num_layers = rig_.config().num_layers,
                               .max_tokens = kMaxTokens,
                               .top_k = 2});
    path_ = std::make_unique<PathOfExchange>(*exchange_);
    want_ = round();
  }
  ~MovingExpertsTest() override {
    for (int rank = 1; rank < kNumRanks; ++rank) fabric_.kill(rank);
    for (std::thread& worker : workers_) worker.join();
  }

  Placement placed(const Layer& layer) const {
    return Placement(shape_, kNumRanks, {layer, layer});
  }

  ExpertRanks& ranks(std::vector<int64_t> capacity = {}) {
    ranks_ = std::make_unique<ExpertRanks>(
        ExpertRanksParts{.transport = transport_.get(),
                         .own = changes_.get(),
                         .shape = &shape_,
                         .placement = &placement_,
                         .path = path_.get(),
                         .capacity_slots = std::move(capacity),
                         .answer_timeout_ms = 2000,
                         .check_room = {},
                         .log = [this](const std::string& line) { log_ += line + "\n"; }});
    return *ranks_;
  }

  void work(int rank) {
    ShardRig rig;
    const auto shard = rig.load(placement_of_start_, rank);
    ShardChanges changes(rig.checkpoint(), shape_, *shard, rig.backend());
    const auto transport = fabric_.endpoint(rank);
    Worker worker(*transport, *shard,
                  {.coordinators = {0},
                   .hidden_size = rig.config().hidden_size,
                   .num_layers = rig.config().num_layers,
                   .max_rows = kMaxTokens,
                   .max_pairs = kMaxTokens * 2,
                   .may_spin = false,
                   .holder = &changes});
    try {
      worker.run(rig.stream());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRankLost) << error.what();
    }
  }

  // Results of four tokens that together choose every expert, of both layers.
  std::vector<float> round() {
    const int64_t hidden = rig_.config().hidden_size;
    const auto x = rig_.rows(kMaxTokens, 3);
    const std::vector<int32_t> ids = {0, 1, 1, 2, 0, 2, 0, 1};
    std::vector<float> out;
    for (int layer = 0; layer < 2; ++layer) {
      DispatchPlan plan;
      plan_dispatch({.layer = layer, .num_tokens = kMaxTokens, .top_k = 2, .expert_ids = ids},
                    placement_, plan);
      exchange_->begin({.layer = layer,
                        .tokens = {x.data(), DType::kF32, hidden},
                        .num_tokens = kMaxTokens,
                        .row_begin = plan.row_begin,
                        .row_token = plan.row_token,
                        .pair_begin = plan.pair_begin,
                        .slot = plan.slot},
                       rig_.stream());
      exchange_->run_local(rig_.stream());
      const ExpertResults got = exchange_->finish(Deadline::after_ms(500), rig_.stream());
      for (const int32_t pair : plan.pair_of_choice) {
        const float* row =
            static_cast<const float*>(got.data) + got.offset[static_cast<size_t>(pair)];
        out.insert(out.end(), row, row + hidden);
      }
    }
    return out;
  }

  // A round that fails for a lost rank, and the recovery from it.
  void fail_and_recover(ExpertRanks& ranks) {
    try {
      round();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      ranks.recover(error);
    }
  }

  RebalanceResult rebalance(ExpertRanks& ranks, const Layer& layer) {
    RebalanceResult result;
    bool is_done = false;
    EXPECT_TRUE(ranks.rebalance(ranks.parse(placement_text(placed(layer), shape_)),
                                [&](const RebalanceResult& got) {
                                  result = got;
                                  is_done = true;
                                }));
    for (int i = 0; i < 2000 && !is_done; ++i) {
      EXPECT_EQ(round(), want_);  // steps go on meanwhile
      ranks.look();
    }
    EXPECT_TRUE(is_done);
    return result;
  }

  ShardRig rig_;
  const ModelShape shape_ = rig_.shape();
  LocalFabric fabric_;
  Placement placement_;
  const Placement placement_of_start_ = placement_;
  std::vector<std::thread> workers_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ExpertShard> shard_;
  std::unique_ptr<ShardChanges> changes_;
  std::unique_ptr<ExpertExchange> exchange_;
  std::unique_ptr<PathOfExchange> path_;
  std::unique_ptr<ExpertRanks> ranks_;
  std::string log_;
  std::vector<float> want_;
};

TEST_F(MovingExpertsTest, LostRanksExpertsAreServedByTheOthers) {
  ExpertRanks& all = ranks();
  fabric_.kill(2);
  fail_and_recover(all);
  EXPECT_EQ(round(), want_);
  EXPECT_EQ(placement_.num_slots(2), 0);
  EXPECT_EQ(all.state().lost, std::vector<int>{2});
  EXPECT_EQ(all.state().num_recoveries, 1);
}

TEST_F(MovingExpertsTest, RankThatDiesBetweenStepsIsNoticedByLooking) {
  ExpertRanks& all = ranks();
  fabric_.kill(1);
  all.look();
  EXPECT_EQ(all.state().lost, std::vector<int>{1});
  EXPECT_EQ(round(), want_);
}

TEST_F(MovingExpertsTest, AllWorkersMayBeLostOneAfterTheOther) {
  ExpertRanks& all = ranks();
  for (const int rank : {3, 1, 2}) {
    fabric_.kill(rank);
    fail_and_recover(all);
    EXPECT_EQ(round(), want_) << rank;
  }
  EXPECT_EQ(placement_.num_slots(0), 6);
}

TEST_F(MovingExpertsTest, TwoRanksMayBeLostAtOnce) {
  ExpertRanks& all = ranks();
  fabric_.kill(1);
  fabric_.kill(3);
  fail_and_recover(all);
  EXPECT_EQ(round(), want_);
  EXPECT_EQ(all.state().lost, (std::vector<int>{1, 3}));
}

TEST_F(MovingExpertsTest, RankThatRefusesForWantOfMemoryKeepsItsOwnAndOthersTakeTheRest) {
  ExpertRanks& all = ranks({0, 2, 9, 9});  // rank 1 holds two slots and has room for no more
  fabric_.kill(3);
  fail_and_recover(all);
  EXPECT_EQ(placement_.num_slots(1), 2);
  EXPECT_EQ(placement_.num_slots(2), 4);
  EXPECT_EQ(round(), want_);
}

TEST_F(MovingExpertsTest, WithoutRoomTheErrorSaysSo) {
  ExpertRanks& all = ranks({0, 2, 2, 2});
  fabric_.kill(3);
  EXPECT_ERROR(all.look(), kEnvironment, "has room for 0");
}

TEST_F(MovingExpertsTest, ErrorThatIsNoLossIsThrownOn) {
  EXPECT_ERROR(ranks().recover(Error(ErrorKind::kInternal, "a bug")), kInternal, "a bug");
}

TEST_F(MovingExpertsTest, RebalanceMovesOnlyWhatChangesAndNoByteOfTheResults) {
  ExpertRanks& all = ranks();
  const RebalanceResult moved = rebalance(all, {{2}, {0, 1}, {2, 1}, {}});
  EXPECT_FALSE(moved.error) << moved.error->message;
  EXPECT_EQ(moved.num_moved_slots, 2 * 3);  // 2 to rank 0, 1 to rank 1, 2 to rank 2, a layer each
  EXPECT_EQ(round(), want_);
  EXPECT_EQ(placement_.num_slots(3), 0);
  EXPECT_FALSE(rebalance(all, {{}, {0}, {1}, {2}}).error);
  EXPECT_EQ(round(), want_);
  EXPECT_EQ(placement_, placement_of_start_);
}

TEST_F(MovingExpertsTest, RankThatIsLostDuringARebalanceEndsItAndNothingElse) {
  ExpertRanks& all = ranks();
  RebalanceResult result;
  all.rebalance(placed({{}, {0, 1}, {1, 2}, {2, 0}}),
                [&](const RebalanceResult& r) { result = r; });
  fabric_.kill(2);
  all.look();
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->kind, ErrorKind::kRankLost);
  EXPECT_EQ(round(), want_);
  EXPECT_EQ(all.state().num_rebalances, 0);
}

TEST_F(MovingExpertsTest, PlacementOnALostRankIsRefused) {
  ExpertRanks& all = ranks();
  fabric_.kill(2);
  all.look();
  EXPECT_ERROR(all.parse(placement_text(placement_of_start_, shape_)), kInput,
               "gives rank 2 2 experts, but that rank is lost");
}

// An expert that comes needs memory while the one that goes is still in use; the next one has it.
TEST_F(MovingExpertsTest, MemoryOfExpertsThatWentIsUsedAgain) {
  ExpertRanks& all = ranks();
  rebalance(all, {{0}, {}, {1}, {2}});
  rebalance(all, {{1}, {0}, {}, {2}});
  const int64_t taken = shard_->resident_bytes();
  rebalance(all, {{2}, {0}, {1}, {}});
  EXPECT_EQ(shard_->resident_bytes(), taken);
  EXPECT_EQ(round(), want_);
}

}  // namespace
}  // namespace colibri
