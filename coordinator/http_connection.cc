#include "coordinator/http_connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <chrono>

namespace colibri {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = beast::error_code;

constexpr std::chrono::milliseconds kLinger(500);

}  // namespace

// ---- Reading ------------------------------------------------------------------------

void HttpConnection::read_request() {
  if (is_draining_ || is_closing_) return close();
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server_.options().max_header_bytes));
  parser_->body_limit(server_.options().max_body_bytes);
  if (buffer_.size() > 0) return read_header();
  stream_.expires_after(std::chrono::seconds(server_.options().idle_timeout_s));
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](ErrorCode error, size_t bytes) {
                            if (error) return self->close();
                            self->buffer_.commit(bytes);
                            self->read_header();
                          });
}

void HttpConnection::read_header() {
  stream_.expires_after(std::chrono::seconds(server_.options().request_timeout_s));
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) {
                            if (error) return self->on_read_error(error);
                            self->read_body();
                          });
}

void HttpConnection::read_body() {
  const auto body = [self = shared_from_this()](ErrorCode error, size_t) {
    if (error) return self->on_read_error(error);
    self->hand_over();
  };
  if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    return http::async_read(stream_, buffer_, *parser_, body);
  }
  asio::async_write(stream_, asio::buffer(continue_line_),
                    [self = shared_from_this(), body](ErrorCode error, size_t) {
                      if (error) return self->close();
                      http::async_read(self->stream_, self->buffer_, *self->parser_, body);
                    });
}

void HttpConnection::on_read_error(const ErrorCode& error) {
  if (error == beast::error::timeout) {
    // The stream is closed by its own timer: nothing can be answered.
    return close();
  }
  const HttpOptions& options = server_.options();
  if (error == http::error::body_limit) {
    return refuse(413,
                  "the body is larger than " + std::to_string(options.max_body_bytes) + " bytes");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(
        431, "the header is larger than " + std::to_string(options.max_header_bytes) + " bytes");
  }
  const bool is_http = error.category() == make_error_code(http::error::end_of_stream).category();
  if (is_http && error != http::error::end_of_stream && error != http::error::partial_message) {
    return refuse(400, "no proper HTTP request: " + error.message());
  }
  close();
}

void HttpConnection::hand_over() {
  auto message = parser_->release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != target.npos) request.query = target.substr(mark + 1);
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers[std::move(name)] = std::string(field.value());
  }
  request.body = std::move(message.body());
  const HttpForm form{.is_head = message.method() == http::verb::head,
                      .keeps_alive = message.keep_alive(),
                      .knows_chunks = message.version() >= 11};
  is_waiting_ = true;
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++request_;
    has_last_ = false;
  }
  stream_.expires_never();
  watch();
  server_.handler()(std::move(request), make_http_reply(shared_from_this(), number, form));
}

// While an answer is under way a client that goes is noticed; one that already sends its next
// request is not read further.
void HttpConnection::watch() {
  if (is_watching_ || buffer_.size() > 0) return;
  is_watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](ErrorCode error) {
    self->is_watching_ = false;
    if (error || !self->is_waiting_) return;
    char byte = 0;
    ErrorCode peeked;
    self->stream_.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, peeked);
    if (!peeked) return;
    self->close();
  });
}

// ---- Writing ------------------------------------------------------------------------

bool HttpConnection::queue(uint64_t request, std::string bytes, bool is_last, bool keeps_alive) {
  const std::lock_guard lock(mutex_);
  if (is_gone_ || request != request_) return false;
  const size_t room = server_.options().max_unsent_bytes;
  if (!is_last && unsent_bytes_ > 0 && unsent_bytes_ + bytes.size() > room) {
    asio::post(*context_, [self = shared_from_this()] { self->close(); });
    is_gone_ = true;
    return false;
  }
  unsent_bytes_ += bytes.size();
  unsent_ += bytes;
  if (is_last) has_last_ = true, keeps_alive_ = keeps_alive;
  asio::post(*context_, [self = shared_from_this()] { self->write_next(); });
  return true;
}

void HttpConnection::give_up(uint64_t request) {
  const std::lock_guard lock(mutex_);
  if (is_gone_ || request != request_) return;
  asio::post(*context_, [self = shared_from_this()] { self->close(); });
}

bool HttpConnection::is_gone(uint64_t request) const {
  const std::lock_guard lock(mutex_);
  return is_gone_ || request != request_;
}

void HttpConnection::mark_gone() {
  const std::lock_guard lock(mutex_);
  is_gone_ = true;
}

void HttpConnection::write_next() {
  if (is_writing_ || is_closing_) return;
  {
    const std::lock_guard lock(mutex_);
    if (unsent_.empty() && !has_last_) return;
    writing_.swap(unsent_);
    unsent_.clear();
  }
  if (writing_.empty()) return answered();
  is_writing_ = true;
  written_ = 0;
  write_some();
}

// Each piece that the client takes gives it time for the next.
void HttpConnection::write_some() {
  stream_.expires_after(std::chrono::seconds(server_.options().write_timeout_s));
  const auto rest = asio::buffer(writing_.data() + written_, writing_.size() - written_);
  stream_.async_write_some(rest, [self = shared_from_this()](ErrorCode error, size_t bytes) {
    if (error) return self->close();
    self->written_ += bytes;
    {
      const std::lock_guard lock(self->mutex_);
      self->unsent_bytes_ -= bytes;
    }
    if (self->written_ < self->writing_.size()) return self->write_some();
    self->writing_.clear();
    self->is_writing_ = false;
    self->stream_.expires_never();
    self->write_next();
  });
}

void HttpConnection::answered() {
  bool keeps_alive = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_waiting_) return;
    keeps_alive = keeps_alive_;
    has_last_ = false;
    ++request_;  // late calls of this answer's find nobody
  }
  is_waiting_ = false;
  last_answer_ = std::chrono::steady_clock::now();
  if (is_watching_) stream_.socket().cancel();
  if (!keeps_alive) return linger();
  asio::post(*context_, [self = shared_from_this()] { self->read_request(); });
}

// A client that still sends when its connection is closed may lose the answer: what it sends is
// read for a while.
void HttpConnection::linger() {
  ErrorCode ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLinger);
  stream_.async_read_some(
      asio::buffer(discarded_), [self = shared_from_this()](ErrorCode error, size_t) {
        const bool ends = error || std::chrono::steady_clock::now() > self->last_answer_ + kLinger;
        ends ? self->close() : self->linger();
      });
}

void HttpConnection::refuse(int status, const std::string& reason) {
  const auto& make = server_.options().error_body;
  const std::string body = make ? make(status, reason) : reason;
  const HttpHeaders headers = {{"Content-Type", make ? "application/json" : "text/plain"}};
  is_waiting_ = true;
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++request_;
  }
  queue(number, http_head(status, headers, body.size(), false) + body, true, false);
}

void HttpConnection::drain() {
  is_draining_ = true;
  if (!is_waiting_) close();
}

void HttpConnection::close() {
  if (is_closing_) return;
  is_closing_ = true;
  mark_gone();
  ErrorCode ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
  server_.forget(shared_from_this());
}

}  // namespace colibri
