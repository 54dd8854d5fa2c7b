// A server whose workers die, stop and are given other experts: every request is answered, with the
// bytes of an undisturbed run.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <regex>
#include <thread>

#include "tests/multi/program.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

using nlohmann::json;

constexpr int kNumRequests = 6;

class SurviveTest : public testing::Test {
 protected:
  SurviveTest() {
    std::filesystem::create_directory_symlink(kDemo, dir_ / "model");
    marker_ = (dir_ / "model").string();
  }

  // A worker that is stuck for `step_timeout_s` counts as lost.
  void start(int num_ranks, int step_timeout_s = 5) {
    const Words words = {kProgram, "serve", "--model", marker_, "--port", "0"};
    run_ = std::make_unique<Command>(
        joined(words, {"--max-context", "512", "--ranks", std::to_string(num_ranks),
                       "--step-timeout", std::to_string(step_timeout_s)}));
    const std::string at = "127.0.0.1:";
    wait_until([&] { return run_->err_so_far().find(at) != std::string::npos; }, 60);
    const std::string said = run_->err_so_far();
    const size_t place = said.find(at);
    ASSERT_NE(place, said.npos) << said;
    port_ = static_cast<uint16_t>(std::stoi(said.substr(place + at.size())));
  }

  struct Answer {
    int status = 0;
    json body;
  };
  Answer ask(const std::string& request) const {
    HttpClient client(port_);
    client.send(request);
    const std::string head = client.read_until("\r\n\r\n");
    const size_t length = head.find("Content-Length: ");
    if (length == head.npos) return {};
    const auto count = static_cast<size_t>(std::stoul(head.substr(length + 16)));
    return {std::stoi(head.substr(9, 3)), json::parse(client.read_bytes(count), nullptr, false)};
  }
  Answer health() const { return ask(http_get("/health")); }

  // Drawn texts, so that a wrong bit or a lost draw shows; all at once, `during` meanwhile.
  std::vector<std::string> texts(int num_tokens, const std::function<void()>& during = {}) const {
    std::vector<std::string> got(kNumRequests);
    std::vector<std::thread> clients;
    for (int i = 0; i < kNumRequests; ++i) {
      clients.emplace_back([this, i, num_tokens, &got] {
        const json request = {{"prompt", "ROMEO " + std::to_string(i) + ":"},
                              {"max_tokens", num_tokens},
                              {"temperature", 0.9},
                              {"seed", i},
                              {"ignore_eos", true}};
        const Answer answer = ask(http_post("/v1/completions", request.dump()));
        got[static_cast<size_t>(i)] = answer.status == 200
                                          ? answer.body["choices"][0]["text"].get<std::string>()
                                          : "status " + std::to_string(answer.status);
      });
    }
    if (during) during();
    for (std::thread& client : clients) client.join();
    return got;
  }

  void signal(int rank, int number) const {
    const pid_t pid = process_of_rank(marker_, rank);
    ASSERT_GT(pid, 0) << "rank " << rank;
    ::kill(pid, number);
  }
  void signal_within_steps(int rank, int number) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    signal(rank, number);
  }

  // The server's placement with the experts of each layer given to the next rank, those of the last
  // to rank 0.
  json moved_placement() const {
    json placement = ask(http_get("/placement")).body;
    for (json& layer : placement["layers"]) {
      auto& ranks = layer["experts"];
      std::rotate(ranks.begin(), ranks.end() - 1, ranks.end());
    }
    return placement;
  }

  void expect_clean_end(int exit_code) {
    run_->signal(SIGTERM);
    const CommandResult result = run_->wait(600);  // since its start
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_TRUE(wait_until([&] { return processes_with(marker_).empty(); }, 10));
  }

  TempDir dir_;
  std::string marker_;
  std::unique_ptr<Command> run_;
  uint16_t port_ = 0;
};

TEST_F(SurviveTest, KilledWorkersCostNoRequestAndNoByteUntilNoneIsLeft) {
  start(3);
  const auto want = texts(300);
  EXPECT_EQ(health().body, (json{{"status", "ok"}, {"degraded", false}}));
  EXPECT_EQ(texts(300, [&] { signal_within_steps(2, SIGKILL); }), want);
  EXPECT_EQ(health().body, (json{{"status", "ok"}, {"degraded", true}, {"lost_ranks", {2}}}));
  EXPECT_EQ(texts(300, [&] { signal_within_steps(1, SIGKILL); }), want);
  EXPECT_EQ(health().body["lost_ranks"], (json{1, 2}));
  expect_clean_end(0);
}

TEST_F(SurviveTest, StoppedWorkerIsTreatedAsLost) {
  start(3);
  const auto want = texts(200);
  EXPECT_EQ(texts(200, [&] { signal_within_steps(1, SIGSTOP); }), want);
  EXPECT_EQ(health().body["lost_ranks"], json{1});
  EXPECT_EQ(process_of_rank(marker_, 1), -1);  // killed, so it never wakes
  expect_clean_end(0);
}

TEST_F(SurviveTest, WorkerThatDiesWhileNothingRunsIsNoticed) {
  start(3);
  signal(2, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return health().body["degraded"] == true; }, 10));
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
    const std::string said = run_->err_so_far();
    const std::regex stall("goes on without ranks? .* after ([0-9.e-]+) s");
    for (std::sregex_iterator at(said.begin(), said.end(), stall), end; at != end; ++at) {
      stalls.push_back(std::stod(at->str(1)));
    }
  }
  ASSERT_EQ(stalls.size(), 200u);
  std::sort(stalls.begin(), stalls.end());
  std::printf("200 recoveries: median %.4f s, worst %.4f s\n", stalls[100], stalls.back());
}

}  // namespace
}  // namespace colibri
