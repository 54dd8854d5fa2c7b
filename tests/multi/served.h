// `colibri serve` on the demo model as a process, and a few ways to ask it.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "tests/multi/program.h"
#include "tests/support/http_client.h"

namespace colibri {

class Served {
 public:
  // Returns when it listens; `more` are further words of the command line, of another model too.
  explicit Served(const Words& more = {}, const Words& environment = {})
      : run_(command(more), environment) {
    const std::string at = "127.0.0.1:";
    wait_until([&] { return run_.err_so_far().find(at) != std::string::npos; }, 60);
    const std::string said = run_.err_so_far();
    const size_t place = said.find(at);
    if (place == said.npos) throw std::runtime_error("serve does not start: " + said);
    port_ = static_cast<uint16_t>(std::stoi(said.substr(place + at.size())));
  }

  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  Command& process() { return run_; }

 private:
  static Words command(const Words& more) {
    const bool has_model = std::find(more.begin(), more.end(), "--model") != more.end();
    const Words words = joined({kProgram, "serve", "--port", "0"}, more);
    return has_model ? words : joined(words, {"--model", kDemo});
  }

  Command run_;
  uint16_t port_ = 0;
};

}  // namespace colibri
