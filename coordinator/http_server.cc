#include "coordinator/http_server.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "coordinator/http_connection.h"

namespace colibri {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

class Server : public HttpServer, public HttpHost {
 public:
  Server(const HttpOptions& options, HttpHandler handler)
      : options_(options), handler_(std::move(handler)), acceptor_(*context_) {
    listen();
    accept();
    thread_ = std::thread([this] { context_->run(); });
  }
  ~Server() override { stop(0); }

  uint16_t port() const override { return port_; }
  int num_connections() const override { return num_connections_; }
  void stop(int64_t timeout_ms) override;

 private:
  const HttpOptions& options() const override { return options_; }
  const HttpHandler& handler() const override { return handler_; }
  const std::shared_ptr<asio::io_context>& context() override { return context_; }
  void forget(const std::shared_ptr<HttpConnection>& connection) override;
  void listen();
  void accept();
  void accept_later();
  void take(tcp::socket socket);

  HttpOptions options_;
  HttpHandler handler_;
  std::shared_ptr<asio::io_context> context_ = std::make_shared<asio::io_context>();
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{*context_};
  uint16_t port_ = 0;
  std::set<std::shared_ptr<HttpConnection>> connections_;  // of the server's thread
  std::atomic<int> num_connections_ = 0;
  std::mutex mutex_;
  std::condition_variable emptied_;
  std::thread thread_;
};

void Server::listen() {
  ErrorCode error;
  const auto address = asio::ip::make_address(options_.address, error);
  if (error) {
    fail(ErrorKind::kInput, "'", options_.address,
         "' is no address to listen on, want an IP "
         "address such as 127.0.0.1 or 0.0.0.0");
  }
  const tcp::endpoint endpoint(address, options_.port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    fail(ErrorKind::kEnvironment, "cannot listen on ", options_.address, " port ", options_.port,
         ": ", error.message(), "; choose another --port, or end what uses it");
  }
  port_ = acceptor_.local_endpoint().port();
}

void Server::accept() {
  acceptor_.async_accept([this](ErrorCode error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) return accept_later();
    take(std::move(socket));
    accept();
  });
}

// Out of descriptors, for instance: others may be given back.
void Server::accept_later() {
  retry_.expires_after(std::chrono::milliseconds(50));
  retry_.async_wait([this](ErrorCode error) {
    if (!error) accept();
  });
}

void Server::take(tcp::socket socket) {
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const auto connection = std::make_shared<HttpConnection>(*this, std::move(socket));
  connections_.insert(connection);
  num_connections_ = static_cast<int>(connections_.size());
  if (num_connections_ > options_.max_connections) {
    return connection->refuse(
        503, "there are already " + std::to_string(options_.max_connections) + " connections");
  }
  connection->read_request();
}

void Server::forget(const std::shared_ptr<HttpConnection>& connection) {
  connections_.erase(connection);
  const std::lock_guard lock(mutex_);
  num_connections_ = static_cast<int>(connections_.size());
  emptied_.notify_all();
}

void Server::stop(int64_t timeout_ms) {
  if (!thread_.joinable()) return;
  asio::post(*context_, [this] {
    ErrorCode ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    const auto all = connections_;
    for (const auto& connection : all) connection->drain();
  });
  {
    std::unique_lock lock(mutex_);
    emptied_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                      [this] { return num_connections_ == 0; });
  }
  asio::post(*context_, [this] {
    const auto all = connections_;
    for (const auto& connection : all) connection->close();
  });
  thread_.join();
}

}  // namespace

std::unique_ptr<HttpServer> make_http_server(const HttpOptions& options, HttpHandler handler) {
  return std::make_unique<Server>(options, std::move(handler));
}

}  // namespace colibri
