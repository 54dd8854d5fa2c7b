#include "launch/serving_client.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>

#include "base/error.h"

namespace colibri {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = beast::error_code;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxHeaderBytes = 64 << 10;

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

void raise_socket_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // where it fails, sockets fail by name
}

// One request on one connection, from connecting to the last byte.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& context, ClientRequest request, ClientEvents events)
      : stream_(context), asked_(std::move(request)), events_(std::move(events)) {}

  void start(const tcp::resolver::results_type& endpoints, const std::string& host);

 private:
  void write();
  void read_header();
  void read_body();
  void on_piece(ErrorCode error);
  std::string words_for(const ErrorCode& error) const;
  void end(const std::string& error);

  beast::tcp_stream stream_;
  ClientRequest asked_;
  ClientEvents events_;
  http::request<http::string_body> request_;
  http::response_parser<http::buffer_body> parser_;
  beast::flat_buffer buffer_;
  std::array<char, 16384> piece_;
  const char* doing_ = "connecting";
};

void Exchange::start(const tcp::resolver::results_type& endpoints, const std::string& host) {
  parser_.header_limit(kMaxHeaderBytes);
  parser_.body_limit(boost::none);  // read piece by piece
  request_.method_string(asked_.method);
  request_.target(asked_.path);
  request_.version(11);
  request_.set(http::field::host, host);
  request_.set(http::field::connection, "close");
  request_.set(http::field::user_agent, "colibri-bench");
  request_.set(http::field::accept, "*/*");
  if (!asked_.body.empty()) request_.set(http::field::content_type, "application/json");
  if (!asked_.api_key.empty()) {
    request_.set(http::field::authorization, "Bearer " + asked_.api_key);
  }
  request_.body() = std::move(asked_.body);
  request_.prepare_payload();
  stream_.expires_after(seconds(asked_.timeout_s));
  stream_.async_connect(endpoints, [self = shared_from_this()](ErrorCode error, const auto&) {
    if (error) return self->end(self->words_for(error));
    ErrorCode ignored;
    self->stream_.socket().set_option(tcp::no_delay(true), ignored);
    self->write();
  });
}

void Exchange::write() {
  doing_ = "sending the request";
  http::async_write(stream_, request_, [self = shared_from_this()](ErrorCode error, size_t) {
    // A server may refuse a request before it has read all of it: its answer is what counts.
    if (error == beast::error::timeout) return self->end(self->words_for(error));
    self->read_header();
  });
}

void Exchange::read_header() {
  doing_ = "waiting for an answer";
  http::async_read_header(stream_, buffer_, parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) {
                            if (error) return self->end(self->words_for(error));
                            self->doing_ = "reading the answer";
                            self->events_.on_status(self->parser_.get().result_int());
                            self->read_body();
                          });
}

void Exchange::read_body() {
  if (parser_.is_done()) return end("");
  parser_.get().body().data = piece_.data();
  parser_.get().body().size = piece_.size();
  http::async_read_some(
      stream_, buffer_, parser_,
      [self = shared_from_this()](ErrorCode error, size_t) { self->on_piece(error); });
}

void Exchange::on_piece(ErrorCode error) {
  const size_t size = piece_.size() - parser_.get().body().size;
  if (size > 0 && !events_.on_body({piece_.data(), size})) return end("");
  if (error && error != http::error::need_buffer) return end(words_for(error));
  read_body();
}

std::string Exchange::words_for(const ErrorCode& error) const {
  if (error == beast::error::timeout) return std::string("timeout while ") + doing_;
  if (error == http::error::end_of_stream) return "the server closed without an answer";
  if (error == http::error::partial_message) return "the server closed amid its answer";
  return error.message() + " while " + doing_;
}

void Exchange::end(const std::string& error) {
  ErrorCode ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
  const auto on_end = std::move(events_.on_end);
  events_ = {};
  on_end(error);
}

class Client : public ServingClient {
 public:
  explicit Client(const ServerAddress& server) : prefix_(server.path) {
    raise_socket_limit();
    ErrorCode error;
    endpoints_ = tcp::resolver(context_).resolve(server.host, server.port, error);
    if (error || endpoints_.empty()) {
      fail(ErrorKind::kEnvironment, "the server's name '", server.host, "' port ", server.port,
           " has no address: ", error.message());
    }
    const bool is_v6 = server.host.find(':') != std::string::npos;
    host_ = (is_v6 ? "[" + server.host + "]" : server.host) + ":" + server.port;
  }

  double now_s() const override {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void send(ClientRequest request, ClientEvents events) override {
    request.path = prefix_ + request.path;
    std::make_shared<Exchange>(context_, std::move(request), std::move(events))
        ->start(endpoints_, host_);
  }
  void at(double time_s, std::function<void()> call) override {
    const auto timer = std::make_shared<asio::steady_timer>(context_, start_ + seconds(time_s));
    timer->async_wait([timer, call = std::move(call)](ErrorCode) { call(); });
  }
  void run() override {
    context_.restart();
    context_.run();
  }

 private:
  const Clock::time_point start_ = Clock::now();
  asio::io_context context_{1};
  tcp::resolver::results_type endpoints_;
  std::string prefix_, host_;
};

}  // namespace

ServerAddress parse_server_url(const std::string& url) {
  const std::string http = "http://";
  if (url.starts_with("https://")) {
    fail(ErrorKind::kUnsupported, "'", url,
         "' wants TLS, which bench does not speak; want http://");
  }
  ServerAddress server;
  std::string rest = url.starts_with(http) ? url.substr(http.size()) : url;
  if (const size_t slash = rest.find('/'); slash != rest.npos) {
    server.path = rest.substr(slash);
    rest.resize(slash);
  }
  while (server.path.ends_with('/')) server.path.pop_back();
  if (server.path.ends_with("/v1")) server.path.resize(server.path.size() - 3);
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  const size_t colon = bracket == rest.npos ? rest.npos : rest.find(':', bracket);
  server.host = rest.substr(0, colon);
  if (colon != rest.npos) server.port = rest.substr(colon + 1);
  if (bracket > 0 && bracket != rest.npos) server.host = server.host.substr(1, bracket - 1);
  const bool is_port = !server.port.empty() && server.port.size() <= 5 &&
                       server.port.find_first_not_of("0123456789") == std::string::npos &&
                       std::stoi(server.port) <= 65535;
  const bool is_plain = std::all_of(url.begin(), url.end(), [](char c) { return c > ' '; });
  if (server.host.empty() || !is_port || !is_plain || url.find_first_of("?#@") != url.npos ||
      server.host.find_first_of("[]") != std::string::npos) {
    fail(ErrorKind::kInput, "--serve is '", url, "', want http://HOST:PORT");
  }
  return server;
}

std::unique_ptr<ServingClient> make_serving_client(const ServerAddress& server) {
  return std::make_unique<Client>(server);
}

}  // namespace colibri
