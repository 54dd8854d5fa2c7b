#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace colibri {

HttpClient::HttpClient(uint16_t port, int receive_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (receive_bytes > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("no connection");
  }
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HttpClient::send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t now = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return;
    sent += static_cast<size_t>(now);
  }
}

std::string HttpClient::read_until(const std::string& end) {
  for (;;) {
    const size_t at = end.empty() ? left_.npos : left_.find(end);
    if (at != left_.npos) {
      std::string text = left_.substr(0, at + end.size());
      left_.erase(0, text.size());
      return text;
    }
    if (!read_more()) return std::exchange(left_, "");
  }
}

bool HttpClient::read_more() {
  char buffer[65536];
  const ssize_t now = recv(socket_, buffer, sizeof buffer, 0);
  if (now <= 0) return false;
  left_.append(buffer, static_cast<size_t>(now));
  return true;
}

std::string HttpClient::read_bytes(size_t count) {
  while (left_.size() < count && read_more()) {
  }
  std::string bytes = left_.substr(0, count);
  left_.erase(0, bytes.size());
  return bytes;
}

std::string http_get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

std::string http_post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

}  // namespace colibri
