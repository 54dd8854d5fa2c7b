// One connection of the HTTP server, on Boost.Beast. Internal to the server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "coordinator/http_reply.h"

namespace colibri {

class HttpConnection;

// What a connection needs of its server.
class HttpHost {
 public:
  virtual ~HttpHost() = default;
  virtual const HttpOptions& options() const = 0;
  virtual const HttpHandler& handler() const = 0;
  // Kept by connections: answers may hold them for longer than the server lives.
  virtual const std::shared_ptr<boost::asio::io_context>& context() = 0;
  virtual void forget(const std::shared_ptr<HttpConnection>& connection) = 0;
};

// One connection: reads a request, waits for its answer while it watches for the client's going,
// sends, and reads the next. All but HttpSink's calls run on the server's thread.
class HttpConnection : public HttpSink, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpHost& server, boost::asio::ip::tcp::socket socket)
      : server_(server), context_(server.context()), stream_(std::move(socket)) {}

  void read_request();
  void refuse(int status, const std::string& reason);
  // Ends it once no answer is under way.
  void drain();
  void close();

  bool queue(uint64_t request, std::string bytes, bool is_last, bool keeps_alive) override;
  void give_up(uint64_t request) override;
  bool is_gone(uint64_t request) const override;

 private:
  void read_header();
  void read_body();
  void on_read_error(const boost::beast::error_code& error);
  void hand_over();
  void watch();
  void write_next();
  void write_some();
  void answered();
  void linger();
  void mark_gone();

  HttpHost& server_;
  std::shared_ptr<boost::asio::io_context> context_;  // outlives stream_
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  char discarded_[4096];
  std::string continue_line_ = "HTTP/1.1 100 Continue\r\n\r\n";
  std::chrono::steady_clock::time_point last_answer_;
  bool is_waiting_ = false;  // an answer is under way
  bool is_draining_ = false, is_writing_ = false, is_closing_ = false, is_watching_ = false;

  std::string writing_;  // what is being written, from written_ on
  size_t written_ = 0;

  // Shared with answering threads. Once is_gone_ is set nothing is posted to the server any more,
  // which may then end before the last answer does.
  mutable std::mutex mutex_;
  std::string unsent_;       // not yet being written
  size_t unsent_bytes_ = 0;  // with what is
  bool has_last_ = false, keeps_alive_ = true, is_gone_ = false;
  uint64_t request_ = 0;  // number of the one being answered
};

}  // namespace colibri
