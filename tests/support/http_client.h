// A client that sends bytes as they are given and reads what comes.
#pragma once

#include <cstdint>
#include <string>

namespace colibri {

class HttpClient {
 public:
  // With `receive_bytes` above 0 the system keeps about that much that was not read.
  explicit HttpClient(uint16_t port, int receive_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(const std::string& bytes);
  // What comes until `end` was seen, the connection ends, or half a minute passes.
  std::string read_until(const std::string& end);
  // The next `count` bytes, or fewer as above.
  std::string read_bytes(size_t count);
  // What comes until the connection ends.
  std::string read_all() { return read_until(""); }
  void close();

 private:
  bool read_more();

  int socket_ = -1;
  std::string left_;  // read, after the last `end`
};

std::string http_get(const std::string& path);
std::string http_post(const std::string& path, const std::string& body);

}  // namespace colibri
