// The HTTP server over real sockets of the loopback.
#include "coordinator/http_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/http_client.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

// Keeps what came; answers are given by the tests.
class HttpServerTest : public testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.port = 0;
    options.error_body = [](int status, const std::string& reason) {
      return "{\"" + std::to_string(status) + "\":\"" + reason + "\"}";
    };
    server_ = make_http_server(options, [this](HttpRequest request, auto reply) {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
      replies_.push_back(std::move(reply));
      came_.notify_all();
    });
  }
  // The answer to the number-th request that came.
  std::shared_ptr<HttpReply> reply(size_t number) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, std::chrono::seconds(5), [&] { return replies_.size() > number; });
    return replies_.at(number);
  }
  HttpRequest request(size_t number) {
    reply(number);
    const std::lock_guard lock(mutex_);
    return requests_[number];
  }
  void forget_replies() {
    const std::lock_guard lock(mutex_);
    replies_.clear();
  }
  bool soon(const std::function<bool()>& condition) {
    for (int i = 0; i < 500 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<HttpRequest> requests_;
  std::vector<std::shared_ptr<HttpReply>> replies_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, RequestArrivesInItsParts) {
  start();
  HttpClient client(server_->port());
  client.send("POST /v1/x?a=b&c HTTP/1.1\r\nHost: h\r\nX-Key: 7\r\nContent-Length: 3\r\n\r\nabc");
  const HttpRequest got = request(0);
  EXPECT_EQ(got.method, "POST");
  EXPECT_EQ(got.path, "/v1/x");
  EXPECT_EQ(got.query, "a=b&c");
  EXPECT_EQ(got.headers.at("x-key"), "7");
  EXPECT_EQ(got.body, "abc");
}

TEST_F(HttpServerTest, WholeAnswerHasItsLength) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/"));
  reply(0)->send(404, {{"Content-Type", "text/plain"}}, "none");
  EXPECT_EQ(client.read_until("none"),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nnone");
}

TEST_F(HttpServerTest, AnswersOfOneConnectionComeInTheOrderOfItsRequests) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/1") + http_get("/2"));
  reply(0)->send(200, {}, "first.");
  reply(1)->send(200, {}, "second.");
  EXPECT_TRUE(client.read_until("first.").ends_with("\r\n\r\nfirst."));
  EXPECT_TRUE(client.read_until("second.").ends_with("\r\n\r\nsecond."));
  EXPECT_EQ(request(1).path, "/2");
}

TEST_F(HttpServerTest, StreamComesPieceByPiece) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/"));
  const auto answer = reply(0);
  answer->begin(200, {{"Content-Type", "text/event-stream"}});
  EXPECT_TRUE(answer->write("data: 1\n\n"));
  EXPECT_EQ(client.read_until("data: 1\n\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            "\r\n9\r\ndata: 1\n\n\r\n");
  EXPECT_TRUE(answer->write("data: [DONE]\n\n"));
  answer->end();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
}

TEST_F(HttpServerTest, OlderClientGetsTheStreamUntilTheConnectionEnds) {
  start();
  HttpClient client(server_->port());
  client.send("GET / HTTP/1.0\r\n\r\n");
  const auto answer = reply(0);
  answer->begin(200, {});
  answer->write("abc");
  answer->end();
  EXPECT_EQ(client.read_all(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
}

TEST_F(HttpServerTest, ClientThatGoesIsNoticedWhileItsAnswerIsWorkedOut) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/"));
  const auto answer = reply(0);
  EXPECT_FALSE(answer->is_gone());
  client.close();
  EXPECT_TRUE(soon([&] { return answer->is_gone(); }));
  answer->begin(200, {});
  EXPECT_FALSE(answer->write("late"));
}

TEST_F(HttpServerTest, ClientThatReadsNothingIsCutOff) {
  start({.max_unsent_bytes = 1 << 20});
  HttpClient client(server_->port());
  client.send(http_get("/"));
  const auto answer = reply(0);
  answer->begin(200, {});
  const std::string piece(size_t{64} << 10, 'x');
  int written = 0;
  while (written < 1000 && answer->write(piece)) ++written;
  EXPECT_LT(written, 1000);
  EXPECT_TRUE(soon([&] { return server_->num_connections() == 0; }));
}

TEST_F(HttpServerTest, ForgottenAnswerEndsTheConnection) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/"));
  reply(0);
  forget_replies();
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(HttpServerTest, SecondAnswerIsOurFault) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/"));
  const auto answer = reply(0);
  answer->send(200, {}, "one");
  EXPECT_ERROR(answer->send(200, {}, "two"), kInternal, "answered twice");
  EXPECT_ERROR(answer->write("two"), kInternal, "outside");
}

TEST_F(HttpServerTest, WhatIsNoHttpIsRefused) {
  start();
  HttpClient client(server_->port());
  client.send("what is this?\r\n\r\n");
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

TEST_F(HttpServerTest, LargeBodyIsRefusedBeforeItIsRead) {
  start({.max_body_bytes = 100});
  HttpClient client(server_->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n" + std::string(50, 'x'));
  const std::string answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("{\"413\":\"the body is larger than 100 bytes\"}")) << answer;
}

TEST_F(HttpServerTest, LargeHeaderIsRefused) {
  start({.max_header_bytes = 1000});
  HttpClient client(server_->port());
  client.send("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n");
  EXPECT_TRUE(client.read_all().starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, SlowRequestIsCutOff) {
  start({.request_timeout_s = 1});
  HttpClient client(server_->port());
  client.send("GET / HTTP/1.1\r\nHost:");
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(soon([&] { return server_->num_connections() == 0; }));
}

TEST_F(HttpServerTest, OneConnectionTooManyIsTold) {
  start({.max_connections = 1});
  HttpClient first(server_->port());
  first.send(http_get("/"));
  reply(0);
  HttpClient second(server_->port());
  EXPECT_TRUE(second.read_all().starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
}

TEST_F(HttpServerTest, ClientThatAsksFirstIsToldToGoOn) {
  start();
  HttpClient client(server_->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ab");
  EXPECT_EQ(request(0).body, "ab");
}

TEST_F(HttpServerTest, StopLetsAnswersUnderWayEnd) {
  start();
  HttpClient busy(server_->port()), idle(server_->port());
  busy.send(http_get("/"));
  const auto answer = reply(0);
  std::thread stopping([&] { server_->stop(5000); });
  EXPECT_EQ(idle.read_all(), "");
  answer->send(200, {}, "last");
  EXPECT_TRUE(busy.read_all().ends_with("last"));
  stopping.join();
}

TEST_F(HttpServerTest, StopCutsOffWhatDoesNotEnd) {
  start();
  HttpClient client(server_->port());
  client.send(http_get("/"));
  const auto answer = reply(0);
  server_->stop(50);
  EXPECT_EQ(client.read_all(), "");
  EXPECT_TRUE(answer->is_gone());
  server_.reset();
  answer->send(200, {}, "late");
}

TEST_F(HttpServerTest, PortInUseIsNamed) {
  start();
  HttpOptions options;
  options.port = server_->port();
  EXPECT_ERROR(make_http_server(options, [](HttpRequest, auto) {}), kEnvironment,
               "cannot listen on 127.0.0.1 port");
  options.address = "nowhere";
  EXPECT_ERROR(make_http_server(options, [](HttpRequest, auto) {}), kInput, "'nowhere'");
}

}  // namespace
}  // namespace colibri
