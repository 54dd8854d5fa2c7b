// A server on ranks that tests kill, stop and give other experts, and what it answers meanwhile.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/multi/served.h"
#include "tests/support/temp_dir.h"

namespace colibri {

class SurviveTest : public testing::Test {
 protected:
  SurviveTest() {
    std::filesystem::create_directory_symlink(kDemo, dir_ / "model");
    marker_ = (dir_ / "model").string();
  }

  // A worker that is stuck for `step_timeout_s` counts as lost.
  void start(int num_ranks, int step_timeout_s = 5, const Words& more = {},
             const Words& environment = {}) {
    const Words words = {"--model",        marker_,
                         "--max-context",  "512",
                         "--ranks",        std::to_string(num_ranks),
                         "--step-timeout", std::to_string(step_timeout_s)};
    served_ = std::make_unique<Served>(joined(words, more), environment);
    run_ = &served_->process();
    port_ = served_->port();
  }

  struct Answer {
    int status = 0;
    nlohmann::json body;
    std::string text = {};  // the same as it came
  };
  Answer ask(const std::string& request) const {
    HttpClient client(port_);
    client.send(request);
    const std::string head = client.read_until("\r\n\r\n");
    const size_t length = head.find("Content-Length: ");
    if (length == head.npos) return {};
    const auto count = static_cast<size_t>(std::stoul(head.substr(length + 16)));
    const std::string body = client.read_bytes(count);
    return {std::stoi(head.substr(9, 3)), nlohmann::json::parse(body, nullptr, false), body};
  }
  Answer health() const { return ask(http_get("/health")); }

  // A rank that ended while nothing ran is noticed a little later.
  void expect_lost(const std::vector<int>& ranks) const {
    const auto is_told = [&] {
      return health().body.value("lost_ranks", std::vector<int>{}) == ranks;
    };
    EXPECT_TRUE(wait_until(is_told, 10)) << health().body << run_->err_so_far();
  }

  // Drawn texts, so that a wrong bit or a lost draw shows; all at once, `during` meanwhile.
  std::vector<std::string> texts(int num_tokens, const std::function<void()>& during = {}) const {
    std::vector<std::string> got(static_cast<size_t>(num_requests_));
    std::vector<std::thread> clients;
    for (int i = 0; i < num_requests_; ++i) {
      clients.emplace_back([this, i, num_tokens, &got] {
        const nlohmann::json request = {{"prompt", "ROMEO " + std::to_string(i) + ":"},
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
  // While a request of its own keeps steps running, whatever others there are.
  void signal_within_steps(int rank, int number) const {
    HttpClient client(port_);
    client.send(http_post(
        "/v1/completions",
        R"({"prompt": "JULIET:", "max_tokens": 450, "ignore_eos": true, "stream": true})"));
    for (int i = 0; i < 20; ++i) client.read_until("\n\n");
    signal(rank, number);
  }

  // The server's placement with the experts of each layer given to the next rank, those of the last
  // to rank 0.
  nlohmann::json moved_placement() const {
    nlohmann::json placement = ask(http_get("/placement")).body;
    for (nlohmann::json& layer : placement["layers"]) {
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
  std::unique_ptr<Served> served_;
  Command* run_ = nullptr;  // of it
  uint16_t port_ = 0;
  int num_requests_ = 6;
};

}  // namespace colibri
