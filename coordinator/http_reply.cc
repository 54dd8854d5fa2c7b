#include "coordinator/http_reply.h"

#include <cstdio>

#include "base/error.h"

namespace colibri {
namespace {

constexpr char kChunked[] = "Transfer-Encoding: chunked\r\n";

// Those that this server gives; a client reads the number.
const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

std::string chunk_of(const std::string& piece) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
  return size + piece + "\r\n";
}

class Reply : public HttpReply {
 public:
  Reply(std::shared_ptr<HttpSink> sink, uint64_t request, const HttpForm& form)
      : sink_(std::move(sink)), request_(request), form_(form) {}
  ~Reply() override {
    if (state_ != State::kEnded) sink_->give_up(request_);
  }

  void send(int status, const HttpHeaders& headers, std::string body) override {
    check(state_ == State::kNew, "an HTTP request is answered twice");
    state_ = State::kEnded;
    std::string bytes = http_head(status, headers, body.size(), form_.keeps_alive);
    if (!form_.is_head) bytes += body;
    sink_->queue(request_, std::move(bytes), true, form_.keeps_alive);
  }

  void begin(int status, const HttpHeaders& headers) override {
    check(state_ == State::kNew, "an HTTP request is answered twice");
    state_ = State::kBegun;
    // To a client of HTTP/1.0 the end of the connection is the end of the answer.
    form_.keeps_alive = form_.keeps_alive && form_.knows_chunks;
    std::string head = http_head(status, headers, std::nullopt, form_.keeps_alive);
    if (!form_.knows_chunks) head.erase(head.find(kChunked), sizeof kChunked - 1);
    sink_->queue(request_, std::move(head), false, form_.keeps_alive);
  }

  bool write(std::string piece) override {
    check(state_ == State::kBegun, "a piece of an HTTP answer outside begin and end");
    if (piece.empty() || form_.is_head) return !is_gone();
    if (form_.knows_chunks) piece = chunk_of(piece);
    return sink_->queue(request_, std::move(piece), false, form_.keeps_alive);
  }

  void end() override {
    check(state_ == State::kBegun, "the end of an HTTP answer without a beginning");
    state_ = State::kEnded;
    const bool has_tail = form_.knows_chunks && !form_.is_head;
    sink_->queue(request_, has_tail ? "0\r\n\r\n" : "", true, form_.keeps_alive);
  }

  bool is_gone() const override { return sink_->is_gone(request_); }

 private:
  enum class State : unsigned char { kNew, kBegun, kEnded };

  std::shared_ptr<HttpSink> sink_;
  uint64_t request_;
  HttpForm form_;
  State state_ = State::kNew;
};

}  // namespace

std::string http_head(int status, const HttpHeaders& headers, std::optional<size_t> length,
                      bool keeps_alive) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " " + reason_of(status) + "\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  if (status != 204) {  // which has no body
    text += length ? "Content-Length: " + std::to_string(*length) + "\r\n" : kChunked;
  }
  if (!keeps_alive) text += "Connection: close\r\n";
  return text + "\r\n";
}

std::shared_ptr<HttpReply> make_http_reply(std::shared_ptr<HttpSink> sink, uint64_t request,
                                           const HttpForm& form) {
  return std::make_shared<Reply>(std::move(sink), request, form);
}

}  // namespace colibri
