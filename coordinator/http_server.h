// HTTP/1.1 over TCP: connections, limits and streams, nothing about models. Boost.Beast does the
// protocol in http_server.cc alone.
//
// Threads: the server has one of its own, on which it calls the handler; the handler returns at
// once and leaves answers to whoever works them out. HttpReply may be used from any thread, one at
// a time, and may outlive the server: nothing then happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace colibri {

struct HttpRequest {
  std::string method;                          // "GET"
  std::string path;                            // "/v1/models", without the query
  std::string query;                           // "a=b", may be empty
  std::map<std::string, std::string> headers;  // names in lower case; the last of equal ones
  std::string body;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The answer to one request. The first send() or begin() decides; what does not fit the order of
// calls is kInternal. Destroyed without an answer it closes the connection.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  // A whole answer.
  virtual void send(int status, const HttpHeaders& headers, std::string body) = 0;
  // An answer that comes in pieces: begin, write and write, end.
  virtual void begin(int status, const HttpHeaders& headers) = 0;
  // False when nobody reads any more: the client has gone, or has left
  // HttpOptions::max_unsent_bytes unread. Then the rest need not be made.
  virtual bool write(std::string piece) = 0;
  virtual void end() = 0;
  // Whether the client has gone (as far as is known), so that work for it can stop.
  virtual bool is_gone() const = 0;
};

// Called on the server's thread. Must not block; may throw nothing.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

struct HttpOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8000;  // 0: one that is free
  size_t max_header_bytes = size_t{16} << 10;
  size_t max_body_bytes = size_t{16} << 20;
  size_t max_unsent_bytes = size_t{4} << 20;  // of one answer
  int max_connections = 1024;
  int request_timeout_s = 30;  // from a request's first byte to its last
  int idle_timeout_s = 120;    // between requests
  int write_timeout_s = 60;    // without a byte taken by the client
  // The body of an answer to what is no proper request (400, 413, 431) or one too many (503); JSON.
  // Who is too slow with a request is cut off without one.
  std::function<std::string(int status, const std::string& reason)> error_body = {};
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;  // as stop(0)
  virtual uint16_t port() const = 0;
  virtual int num_connections() const = 0;
  // Takes no new connections and no further requests; returns when all answers under way are sent,
  // or after timeout_ms, when the rest is cut off.
  virtual void stop(int64_t timeout_ms) = 0;
};

// Listens when it returns. Errors: kEnvironment naming address, port and the system's reason.
std::unique_ptr<HttpServer> make_http_server(const HttpOptions& options, HttpHandler handler);

}  // namespace colibri
