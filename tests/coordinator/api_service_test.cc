// Who waits for whom between the server's thread, the one that prepares and the engine's.
#include "coordinator/api_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/coordinator/forward_rig.h"

namespace colibri {
namespace {

TEST(TaskThreadTest, TasksRunInOrderAndAllOfThemBeforeTheEnd) {
  std::vector<int> ran;
  {
    TaskThread thread({.max_tasks = 100, .max_bytes = 1000});
    for (int i = 0; i < 100; ++i) {
      while (!thread.post(1, [&ran, i] { ran.push_back(i); })) std::this_thread::yield();
    }
  }
  ASSERT_EQ(ran.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(TaskThreadTest, TasksAndBytesThatWaitAreBounded) {
  std::promise<void> go, again;  // outlive the tasks that wait for them
  TaskThread thread({.max_tasks = 3, .max_bytes = 10});
  EXPECT_TRUE(thread.post(50, [&] { go.get_future().wait(); }));  // one alone may be large
  EXPECT_FALSE(thread.post(1, [] {}));
  go.set_value();
  while (thread.num_left() > 0) std::this_thread::yield();
  EXPECT_TRUE(thread.post(8, [&] { again.get_future().wait(); }));
  EXPECT_FALSE(thread.post(3, [] {}));
  EXPECT_TRUE(thread.post(1, [] {}));
  EXPECT_TRUE(thread.post(1, [] {}));
  EXPECT_FALSE(thread.post(0, [] {}));
  again.set_value();
}

// Keeps what is sent, and holds up whoever sends until it may.
struct HeldReply : HttpReply {
  void send(int sent, const HttpHeaders&, std::string sent_body) override {
    may_send.get_future().wait();
    body = std::move(sent_body);
    status = sent;
  }
  void begin(int, const HttpHeaders&) override {}
  bool write(std::string) override { return true; }
  void end() override {}
  bool is_gone() const override { return false; }

  std::promise<void> may_send;
  std::string body;
  std::atomic<int> status = 0;
};

std::shared_ptr<HeldReply> reply(bool is_held = false) {
  auto made = std::make_shared<HeldReply>();
  if (!is_held) made->may_send.set_value();
  return made;
}

class ApiServiceTest : public testing::Test {
 protected:
  ApiServiceTest()
      : tokenizer_(Tokenizer::from_json(R"({"model": {"vocab": {"a": 0, "b": 1}}})", "")),
        service_({.name = "m",
                  .version = "1",
                  .tokenizer = &tokenizer_,
                  .sampling = {},
                  .eos_ids = {},
                  .vocab_size = 10,
                  .max_context = 100},
                 {.api_key = "", .max_waiting = 2}) {}

  std::shared_ptr<HeldReply> ask(const std::string& path, const std::string& body,
                                 bool is_held = false) {
    auto made = reply(is_held);
    service_.handle({path == "/health" ? "GET" : "POST", path, "", {}, body}, made);
    return made;
  }

  // On a thread of its own, until `is_over`; what run() throws is kept.
  void run_on(ForwardRig& rig) {
    runs_ = std::thread([this, &rig] {
      Engine engine(rig.forward, rig.cache, 10, {.limits = {}, .max_context = 100});
      const ModelShape shape = rig.rig.shape();
      ExpertRanks ranks({.shape = &shape, .placement = &rig.placement, .path = rig.path.get()});
      TraceLog log(0);
      RankTracer tracer(nullptr, log, rig.forward);
      try {
        service_.run({engine, ranks, tracer}, [this] { return is_over_.load(); });
      } catch (const Error& error) {
        thrown_ = error.what();
      }
    });
    while (ask("/health", "")->status != 200) std::this_thread::yield();
  }

  const std::string asked_ = R"({"prompt":[1,2],"max_tokens":2,"temperature":0})";
  Tokenizer tokenizer_;
  ApiService service_;
  std::atomic<bool> is_over_ = false;
  std::thread runs_;
  std::string thrown_;
};

// A step that cannot be made good: nobody is there to take the lost rank's place.
class RankIsLost : public RouteObserver {
 public:
  void on_routes(int, const Batch&, std::span<const int32_t>, std::span<const float>) override {
    fail(ErrorKind::kRankLost, "rank 3 is lost");
  }
};

TEST_F(ApiServiceTest, OneThatIsLongToPrepareHoldsUpNobodyElseButTheQueue) {
  const auto first = ask("/tokenize", R"({"prompt":"ab"})", true);
  const auto second = ask("/tokenize", R"({"prompt":"b"})");
  EXPECT_EQ(ask("/version", "")->status, 405);  // answered at once
  EXPECT_EQ(ask("/tokenize", R"({"prompt":"b"})")->status, 429);
  EXPECT_EQ(second->status, 0);
  first->may_send.set_value();
  while (second->status == 0) std::this_thread::yield();
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(second->body, R"({"count":1,"max_model_len":100,"tokens":[1]})");
}

TEST_F(ApiServiceTest, DrainAnswersWhatIsStillBeingPrepared) {
  ForwardRig rig(16);
  EXPECT_NE(ask("/v1/completions", asked_)->body.find("being loaded"), std::string::npos);
  run_on(rig);
  const auto first = ask("/tokenize", R"({"prompt":"ab"})", true);
  const auto second = ask("/v1/completions", asked_);
  is_over_ = true;
  while (ask("/health", "")->status != 503) std::this_thread::yield();
  EXPECT_NE(ask("/v1/completions", asked_)->body.find("is ending"), std::string::npos);
  EXPECT_EQ(second->status, 0);
  first->may_send.set_value();
  runs_.join();
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_NE(second->body.find(R"("completion_tokens":2)"), std::string::npos);
}

TEST_F(ApiServiceTest, WhereALossCannotBeMadeGoodAllAreToldWhyUntilTheServerIsEnded) {
  RankIsLost lost;
  ForwardRig rig(16, &lost);
  run_on(rig);
  const auto first = ask("/v1/completions", asked_);
  while (first->status == 0) std::this_thread::yield();
  EXPECT_EQ(first->status, 503);
  EXPECT_NE(first->body.find("rank 3 is lost"), std::string::npos) << first->body;
  while (ask("/health", "")->status != 503) std::this_thread::yield();
  EXPECT_NE(ask("/health", "")->body.find("rank 3 is lost"), std::string::npos);
  EXPECT_EQ(ask("/v1/completions", asked_)->status, 503);
  is_over_ = true;
  runs_.join();
  EXPECT_EQ(thrown_, "rank 3 is lost");
}

}  // namespace
}  // namespace colibri
