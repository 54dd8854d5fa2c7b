// Many HTTP exchanges at once on one thread, for the load generator. Boost.Asio and Beast stand in
// serving_client.cc alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace colibri {

struct ServerAddress {
  std::string host, port = "80";
  std::string path;  // before that of an endpoint: "" or "/prefix"
};

// Of http://HOST[:PORT][/PREFIX]; a prefix /v1 is left out, because endpoints begin with it. Fails
// with kInput for what is no such URL, with kUnsupported for https.
ServerAddress parse_server_url(const std::string& url);

struct ClientRequest {
  std::string method = "GET";
  std::string path;
  std::string body;       // JSON
  std::string api_key;    // "": none is sent
  double timeout_s = 30;  // from now to the last byte of the answer
};

// Called inside run(), on its thread.
struct ClientEvents {
  std::function<void(int status)> on_status;
  // False: the rest of the answer is not wanted.
  std::function<bool(std::string_view bytes)> on_body;
  // Once, at the end; `error` is empty, or says what happened instead of a whole answer.
  std::function<void(const std::string& error)> on_end;
};

// Not thread-safe. Events may call send() and at().
class ServingClient {
 public:
  virtual ~ServingClient() = default;
  virtual double now_s() const = 0;  // since the client was made
  // A connection of its own for each request: what a connection costs counts, and none is reused.
  virtual void send(ClientRequest request, ClientEvents events) = 0;
  virtual void at(double time_s, std::function<void()> call) = 0;
  // Returns when all requests have ended and all calls were made.
  virtual void run() = 0;
};

// Resolves the host's name and lets this process open as many sockets as it may. Fails with
// kEnvironment naming the host that has no address.
std::unique_ptr<ServingClient> make_serving_client(const ServerAddress& server);

}  // namespace colibri
