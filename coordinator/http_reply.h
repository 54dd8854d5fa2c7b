// The bytes of an HTTP/1.1 answer, made on whichever thread works it out. Internal to the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/http_server.h"

namespace colibri {

// Where the bytes go. Safe from any thread, also after the connection has ended.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // False when the client of that request has gone or reads too little.
  virtual bool queue(uint64_t request, std::string bytes, bool is_last, bool keeps_alive) = 0;
  // No answer will come.
  virtual void give_up(uint64_t request) = 0;
  virtual bool is_gone(uint64_t request) const = 0;
};

// What of a request the form of its answer depends on.
struct HttpForm {
  bool is_head = false;      // no body
  bool keeps_alive = true;   // as the client wishes
  bool knows_chunks = true;  // HTTP/1.1
};

// Status line and headers; no length: in chunks.
std::string http_head(int status, const HttpHeaders& headers, std::optional<size_t> length,
                      bool keeps_alive);

std::shared_ptr<HttpReply> make_http_reply(std::shared_ptr<HttpSink> sink, uint64_t request,
                                           const HttpForm& form);

}  // namespace colibri
