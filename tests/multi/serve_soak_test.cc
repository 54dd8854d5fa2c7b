// The server under thousands of requests, many of them wrong, slow or given up. Only in the long
// run (FULL_TESTS); SOAK_REQUESTS is another number of requests than 10,000.

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "tests/multi/served.h"

namespace colibri {
namespace {

using nlohmann::json;
using Random = std::mt19937;

constexpr int kThreads = 12, kContext = 512;

int64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// What a client does, and what of the answer must hold.
class Soak {
 public:
  explicit Soak(uint16_t port) : port_(port) {}

  // Runs `count` requests from several threads.
  void run(int count, unsigned seed) {
    std::atomic<int> left = count;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, &left, seed, i] {
        Random random(seed * kThreads + static_cast<unsigned>(i));
        while (left-- > 0) one(random);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  int num_answered() const { return num_answered_; }
  int num_refused() const { return num_refused_; }
  int num_given_up() const { return num_given_up_; }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  static int draw(Random& random, int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  }
  json completion(Random& random, int prompt_tokens, int new_tokens) const {
    std::vector<int> ids;
    for (int i = 0; i < prompt_tokens; ++i) ids.push_back(draw(random, 1500));
    return {{"prompt", ids},
            {"max_tokens", new_tokens},
            {"ignore_eos", true},
            {"temperature", 1.0},
            {"stream", draw(random, 2) == 1}};
  }
  void expect(bool holds, const std::string& what, const std::string& answer) {
    if (holds) return;
    const std::lock_guard lock(mutex_);
    faults_.push_back(what + ": " + answer.substr(0, 300) + " ... " +
                      answer.substr(answer.size() - std::min<size_t>(answer.size(), 100)));
  }
  static bool is_whole(const json& request, const std::string& answer) {
    if (!answer.starts_with("HTTP/1.1 200")) return false;
    if (request.value("stream", false)) return answer.find("data: [DONE]\n\n") != answer.npos;
    return answer.find("\"usage\"") != answer.npos && answer.ends_with("}");
  }

  void one(Random& random) {
    switch (draw(random, 10)) {
      case 0:
        return answered("/v1/completions", completion(random, 1, 1));
      case 1:
        return answered("/v1/completions", completion(random, kContext - 8, 4));
      case 2:
      case 3:
        return answered("/v1/completions", completion(random, 1 + draw(random, 60), 24));
      case 4:
        return answered("/v1/chat/completions", chat(random));
      case 5:
        return refused(random);
      case 6:
        return slow(random);
      default:
        return given_up(random);
    }
  }
  static json chat(Random& random) {
    const std::string text(static_cast<size_t>(1 + draw(random, 40)), 'o');
    return {{"messages", json::array({{{"role", "user"}, {"content", text}}})},
            {"max_tokens", 12},
            {"n", 1 + draw(random, 3)},
            {"stream", draw(random, 2) == 1}};
  }
  void answered(const std::string& path, const json& request) {
    HttpClient client(port_);
    client.send(post(path, request.dump()));
    const std::string answer = client.read_all();
    expect(is_whole(request, answer), "no whole answer", answer);
    ++num_answered_;
  }
  void refused(Random& random) {
    static const std::array<std::string, 7> kBodies = {"{",
                                                       "",
                                                       "[]",
                                                       "{\"prompt\":7}",
                                                       std::string(200'000, '['),
                                                       "{\"prompt\":\"a\",\"n\":0}",
                                                       "{\"prompt\":[1],\"max_tokens\":\"many\"}"};
    const int kind = draw(random, static_cast<int>(kBodies.size()) + 1);
    const bool is_long = kind == static_cast<int>(kBodies.size());
    const std::string body = is_long ? json{{"prompt", std::string(100'000, 'x')}}.dump()
                                     : kBodies[static_cast<size_t>(kind)];
    HttpClient client(port_);
    client.send(post("/v1/completions", body));
    const std::string answer = client.read_all();
    expect(answer.starts_with("HTTP/1.1 400") && answer.find("\"error\"") != answer.npos,
           "not refused", answer);
    ++num_refused_;
  }
  // Takes a stream of several choices in small pieces.
  void slow(Random& random) {
    json request = completion(random, 4, 40);
    request["stream"] = true;
    request["n"] = 4;
    HttpClient client(port_, 4096);
    client.send(post("/v1/completions", request.dump()));
    std::string answer, piece;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(draw(random, 3)));
      piece = client.read_bytes(2000);
      answer += piece;
    } while (piece.size() == 2000);
    expect(is_whole(request, answer), "no whole slow answer", answer);
    ++num_answered_;
  }
  // Goes before the request is sent, before its answer, or within it.
  void given_up(Random& random) {
    json request = completion(random, 1 + draw(random, 400), 100);
    request["stream"] = draw(random, 3) > 0;
    const std::string bytes = post("/v1/completions", request.dump());
    const int when = draw(random, 4);
    HttpClient client(port_);
    client.send(when == 0 ? bytes.substr(0, bytes.size() / 2) : bytes);
    if (when == 2) std::this_thread::sleep_for(std::chrono::milliseconds(draw(random, 30)));
    if (when == 3) client.read_bytes(static_cast<size_t>(draw(random, 2000)));
    ++num_given_up_;
  }

  uint16_t port_;
  std::atomic<int> num_answered_ = 0, num_refused_ = 0, num_given_up_ = 0;
  std::mutex mutex_;
  std::vector<std::string> faults_;
};

bool is_long_run() { return std::getenv("FULL_TESTS") != nullptr; }

TEST(ServeSoakTest, ThousandsOfRequestsLeaveNothingBehind) {
  if (!is_long_run()) GTEST_SKIP() << "only with FULL_TESTS";
  const char* const asked = std::getenv("SOAK_REQUESTS");
  const int count = asked == nullptr ? 10'000 : std::atoi(asked);
  Served served({"--max-context", std::to_string(kContext), "--max-waiting", "1000"});
  Soak soak(served.port());
  constexpr int kParts = 10;
  int64_t settled = 0;
  for (int part = 0; part < kParts; ++part) {
    soak.run(count / kParts, static_cast<unsigned>(part));
    const int64_t now = resident_bytes(served.process().pid());
    if (part == kParts / 2 - 1) settled = now;
    std::printf("after %d requests: %.2f MB resident\n", (part + 1) * count / kParts,
                static_cast<double>(now) / 1e6);
    std::fflush(stdout);
  }
  const int64_t at_end = resident_bytes(served.process().pid());
  std::printf("%d answered, %d refused, %d given up; memory %+.2f %% over the second half\n",
              soak.num_answered(), soak.num_refused(), soak.num_given_up(),
              100 * static_cast<double>(at_end - settled) / static_cast<double>(settled));
  for (const std::string& fault : soak.faults()) ADD_FAILURE() << fault;
  EXPECT_LT(static_cast<double>(at_end), 1.01 * static_cast<double>(settled));
  HttpClient client(served.port());
  client.send(http_get("/health"));
  EXPECT_NE(client.read_until("}").find("\"status\":\"ok\""), std::string::npos);
  served.process().signal(SIGTERM);
  EXPECT_EQ(served.process().wait(1800).exit_code, 0);
}

TEST(ServeSoakTest, StreamsAtOnceAllEnd) {
  if (!is_long_run()) GTEST_SKIP() << "only with FULL_TESTS";
  Served served({"--max-context", "256", "--max-batch", "256", "--chunk", "128"});
  const CommandResult result =
      run_command({kProgram, "bench", "--serve", served.url(), "--num-prompts", "512",
                   "--max-concurrency", "256", "--random-input-len", "16", "--random-output-len",
                   "128", "--ignore-eos", "--format", "json"},
                  600);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = json::parse(result.out)["runs"][0];
  EXPECT_EQ(run["completed"], 512) << run["errors"];
  EXPECT_EQ(run["total_output_tokens"], 512 * 128);
  std::printf("256 streams: inter-token latency median %.2f ms, p99 %.2f ms; %.0f tokens/s\n",
              run["median_itl_ms"].get<double>(), run["p99_itl_ms"].get<double>(),
              run["output_throughput"].get<double>());
}

}  // namespace
}  // namespace colibri
