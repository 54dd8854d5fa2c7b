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
  std::promise<void> go;
  TaskThread thread({.max_tasks = 3, .max_bytes = 10});
  EXPECT_TRUE(thread.post(50, [&] { go.get_future().wait(); }));  // one alone may be large
  EXPECT_FALSE(thread.post(1, [] {}));
  go.set_value();
  while (thread.num_left() > 0) std::this_thread::yield();
  std::promise<void> again;
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

  Tokenizer tokenizer_;
  ApiService service_;
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
  Engine engine(rig.forward, rig.cache, 10, {.limits = {}, .max_context = 100});
  const std::string asked = R"({"prompt":[1,2],"max_tokens":2,"temperature":0})";
  EXPECT_EQ(ask("/v1/completions", asked)->status, 503);  // nothing runs yet
  std::atomic<bool> is_over = false;
  std::thread runs([&] { service_.run(engine, [&] { return is_over.load(); }); });
  while (ask("/health", "")->status != 200) std::this_thread::yield();
  const auto first = ask("/tokenize", R"({"prompt":"ab"})", true);
  const auto second = ask("/v1/completions", asked);
  is_over = true;
  while (ask("/health", "")->status != 503) std::this_thread::yield();
  EXPECT_EQ(ask("/v1/completions", asked)->status, 503);
  EXPECT_EQ(second->status, 0);
  first->may_send.set_value();
  runs.join();
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_NE(second->body.find(R"("completion_tokens":2)"), std::string::npos);
}

}  // namespace
}  // namespace colibri
