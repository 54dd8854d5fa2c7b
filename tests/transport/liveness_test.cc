#include "transport/liveness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace colibri {
namespace {

using std::chrono::milliseconds;

// A process that waits to be killed.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

std::vector<PeerIdentity> peers_with(pid_t pid) {
  const PeerIdentity own = own_identity();
  return {own, {pid, own.host_hash}};
}

std::vector<int> wait_for_end(ProcessWatch& watch) {
  for (int i = 0; i < 1000; ++i) {
    const std::vector<int> ended = watch.take_ended();
    if (!ended.empty()) return ended;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return {};
}

TEST(ProcessWatchTest, LivingPeerHasNotEnded) {
  const Child child;
  ProcessWatch watch(0, peers_with(child.pid()));
  EXPECT_TRUE(watch.watches(1));
  EXPECT_FALSE(watch.watches(0));
  EXPECT_TRUE(watch.take_ended().empty());
}

TEST(ProcessWatchTest, KilledPeerIsToldOnce) {
  const Child child;
  ProcessWatch watch(0, peers_with(child.pid()));
  kill(child.pid(), SIGKILL);
  EXPECT_EQ(wait_for_end(watch), std::vector<int>{1});
  EXPECT_TRUE(watch.take_ended().empty());
}

TEST(ProcessWatchTest, StoppedPeerCanBeKilled) {
  const Child child;
  ProcessWatch watch(0, peers_with(child.pid()));
  kill(child.pid(), SIGSTOP);
  watch.kill(1);
  EXPECT_EQ(wait_for_end(watch), std::vector<int>{1});
}

TEST(ProcessWatchTest, PeerThatHasGoneBeforeTheStartHasEnded) {
  pid_t pid = 0;
  {
    const Child child;
    pid = child.pid();
  }
  ProcessWatch watch(0, peers_with(pid));
  EXPECT_EQ(watch.take_ended(), std::vector<int>{1});
  watch.kill(1);
}

TEST(ProcessWatchTest, PeerOnAnotherMachineIsNotWatched) {
  const PeerIdentity own = own_identity();
  const ProcessWatch watch(0, {own, {1, own.host_hash + 1}});
  EXPECT_FALSE(watch.watches(1));
}

class HeartbeatTest : public testing::Test {
 protected:
  static Heartbeat::Clock::time_point at(int ms) {
    return Heartbeat::Clock::time_point(milliseconds(ms));
  }
  // Looks each half second, as a rank that polls does.
  std::vector<int> look_until(int ms) {
    std::vector<int> late;
    for (; now_ms_ <= ms; now_ms_ += 500) late = beat_.overdue(at(now_ms_));
    return late;
  }

  Heartbeat beat_{{1, 3}, {milliseconds(1000), milliseconds(10000)}, at(0)};
  int now_ms_ = 0;
};

TEST_F(HeartbeatTest, IsSentOnceAPeriod) {
  EXPECT_TRUE(beat_.take_due(at(0)));
  EXPECT_FALSE(beat_.take_due(at(999)));
  EXPECT_TRUE(beat_.take_due(at(1000)));
}

TEST_F(HeartbeatTest, SilentRankIsOverdueAfterTenSeconds) {
  EXPECT_TRUE(look_until(10000).empty());
  beat_.heard(1, at(10000));
  EXPECT_EQ(look_until(10500), std::vector<int>{3});
}

TEST_F(HeartbeatTest, RankThatWasBusyItselfComplainsLater) {
  look_until(500);
  EXPECT_TRUE(beat_.overdue(at(60000)).empty());
  now_ms_ = 60500;
  EXPECT_TRUE(look_until(70000).empty());
  EXPECT_EQ(look_until(70500), (std::vector<int>{1, 3}));
}

TEST_F(HeartbeatTest, NobodyToBeatForIsNeverDue) {
  Heartbeat none({}, {}, at(0));
  EXPECT_FALSE(none.take_due(at(5000)));
}

}  // namespace
}  // namespace colibri
