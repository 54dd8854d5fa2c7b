// A server whose workers die, stop and are given other experts: every request is answered, with the
// bytes of an undisturbed run.

#include <random>
#include <sstream>

#include "tests/multi/survive_rig.h"

namespace colibri {
namespace {

using nlohmann::json;

TEST_F(SurviveTest, KilledWorkersCostNoRequestAndNoByteUntilNoneIsLeft) {
  start(3);
  const auto want = texts(300);
  EXPECT_EQ(health().body, (json{{"status", "ok"}, {"degraded", false}}));
  EXPECT_EQ(texts(300, [&] { signal_within_steps(2, SIGKILL); }), want);
  EXPECT_EQ(health().body, (json{{"status", "ok"}, {"degraded", true}, {"lost_ranks", {2}}}));
  EXPECT_EQ(texts(300, [&] { signal_within_steps(1, SIGKILL); }), want);
  expect_lost({1, 2});
  expect_clean_end(0);
}

TEST_F(SurviveTest, StoppedWorkerIsTreatedAsLost) {
  start(3);
  const auto want = texts(200);
  EXPECT_EQ(texts(200, [&] { signal_within_steps(1, SIGSTOP); }), want);
  expect_lost({1});
  EXPECT_EQ(process_of_rank(marker_, 1), -1);  // killed, so it never wakes
  expect_clean_end(0);
}

TEST_F(SurviveTest, WorkerThatDiesWhileNothingRunsIsNoticedAndCounted) {
  start(3);
  const std::string before = ask(http_get("/metrics")).text;
  EXPECT_NE(before.find("\ncolibri:worker_losses_total{model_name=\"model\"} 0\n"), before.npos);
  signal(2, SIGKILL);
  const std::string recovered = "\ncolibri:recovery_seconds_count{model_name=\"model\"} 1\n";
  std::string metrics;
  EXPECT_TRUE(wait_until(
      [&] { return (metrics = ask(http_get("/metrics")).text).find(recovered) != metrics.npos; },
      10));
  EXPECT_NE(metrics.find("\ncolibri:worker_losses_total{model_name=\"model\"} 1\n"), metrics.npos);
  EXPECT_EQ(health().body["degraded"], true);
  const json ranks = ask(http_get("/state")).body["ranks"];
  EXPECT_EQ(ranks[1]["state"], "alive");
  EXPECT_EQ(ranks[2]["state"], "lost");
  EXPECT_EQ(ranks[2]["resident_bytes"], 0);
  expect_clean_end(0);
}

TEST_F(SurviveTest, RebalanceMovesExpertsUnderRequestsAndNoByte) {
  start(3);
  const auto want = texts(300);
  const json moved = moved_placement();
  Answer answer;
  EXPECT_EQ(texts(300, [&] { answer = ask(http_post("/rebalance", moved.dump())); }), want);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body["moved_experts"], 4 * 16);  // each rank read eight or sixteen new ones
  EXPECT_EQ(ask(http_get("/placement")).body, moved);
  EXPECT_EQ(texts(300), want);
  expect_clean_end(0);
}

// 200 steps save ten times what the moves cost, so that a slow moment while reading weights, by
// which their cost is told, is no reason to leave them.
TEST_F(SurviveTest, ServerThatRebalancesByItselfChangesNoByte) {
  start(3);
  const auto want = texts(300);
  start(3, 5, {"--rebalance", "every=200", "--log-level", "info"});
  const json first = ask(http_get("/placement")).body;
  EXPECT_EQ(texts(300), want);
  wait_until([&] { return run_->err_so_far().find("rebalance: ") != std::string::npos; }, 20);
  EXPECT_EQ(texts(300), want);
  wait_until([&] { return run_->err_so_far().find("experts moved") != std::string::npos; }, 20);
  EXPECT_NE(ask(http_get("/placement")).body, first);
  const std::string metrics = ask(http_get("/metrics")).text;
  EXPECT_NE(metrics.find("colibri:rebalances_total{model_name=\"model\",result=\"done\"} "),
            metrics.npos);
  EXPECT_EQ(metrics.find("result=\"done\"} 0\n"), metrics.npos);
  EXPECT_EQ(texts(300), want);
  expect_clean_end(0);
}

// Both ask the workers over one channel, and each worker answers when it is ready.
TEST_F(SurviveTest, ProfileAndRebalanceKeepOutOfEachOthersWay) {
  start(3, 5, {"--profile-dir", dir_.path().string()});
  EXPECT_EQ(ask(http_post("/start_profile", "")).status, 200);
  EXPECT_EQ(ask(http_post("/rebalance", moved_placement().dump())).status, 200);
  EXPECT_EQ(ask(http_post("/stop_profile", "")).status, 200);
  for (int i = 0; i < 10; ++i) {
    const std::string moved = moved_placement().dump();
    int status = 0;
    std::thread other([&] { status = ask(http_post("/rebalance", moved)).status; });
    const Answer started = ask(http_post("/start_profile", ""));
    other.join();
    EXPECT_EQ(started.status, 200) << started.text;
    EXPECT_EQ(status, 200);
    ask(http_post("/stop_profile", ""));
  }
  expect_clean_end(0);
}

TEST_F(SurviveTest, RebalanceUnderWayAtTheEndIsAnswered) {
  start(3);
  const std::string moved = moved_placement().dump();
  Answer answer;
  texts(100, [&] {
    HttpClient client(port_);
    client.send(http_post("/rebalance", moved));
    run_->signal(SIGTERM);
    answer.text = client.read_until("\r\n\r\n");
  });
  EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 200") || answer.text.starts_with("HTTP/1.1 503"))
      << answer.text;
  EXPECT_EQ(run_->wait(60).exit_code, 0);
}

TEST_F(SurviveTest, PlacementOfAnotherShapeIsRefusedByName) {
  start(2);
  const Answer answer = ask(http_post("/rebalance", R"({"colibri_placement": 1})"));
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(health().body["degraded"], false);
}

// In the long run: two hundred kills at random moments, the server started anew when one worker is
// left.
TEST_F(SurviveTest, TwoHundredKillsAtRandomMoments) {
  if (std::getenv("FULL_TESTS") == nullptr) GTEST_SKIP() << "set FULL_TESTS=1";
  std::mt19937 random(7);
  std::vector<std::string> want;
  std::vector<double> stalls;  // as the server's log has them
  int num_kills = 0;
  while (num_kills < 200) {
    start(4, 30);
    if (want.empty()) want = texts(100);
    std::vector<int> alive = {1, 2, 3};
    while (alive.size() > 1 && num_kills < 200) {
      const auto victim = alive.begin() + static_cast<int>(random() % alive.size());
      const auto delay = std::chrono::milliseconds(random() % 600);
      EXPECT_EQ(texts(100,
                      [&] {
                        std::this_thread::sleep_for(delay);
                        signal(*victim, SIGKILL);
                      }),
                want)
          << "kill " << num_kills << " of rank " << *victim;
      alive.erase(victim);
      ++num_kills;
    }
    expect_clean_end(0);
    std::istringstream said(run_->err_so_far());
    for (std::string line; std::getline(said, line);) {
      const size_t at = line.find(" after ");
      if (line.find("goes on without") == line.npos || at == line.npos) continue;
      stalls.push_back(std::stod(line.substr(at + 7)));
    }
  }
  ASSERT_EQ(stalls.size(), 200u);
  std::sort(stalls.begin(), stalls.end());
  std::printf("200 recoveries: median %.4f s, worst %.4f s\n", stalls[100], stalls.back());
}

}  // namespace
}  // namespace colibri
