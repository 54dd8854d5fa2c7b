// Errors with a kind. Every failure a user can cause or meet is thrown as an Error whose message
// says what came, what was wanted, where, and what to do; the kind decides the exit code.
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace colibri {

enum class ErrorKind {
  kInput,        // a file, a flag or a request is wrong: exit 2
  kEnvironment,  // something this machine lacks: a file, memory, a device: exit 3
  kUnsupported,  // valid, but not supported by this build or version: exit 3
  kTimeout,      // a deadline passed: exit 4
  kRankLost,     // a rank died: exit 4
  kInternal,     // a bug of ours: exit 70
};

// "input", "environment", ... for logs and wire messages.
const char* to_string(ErrorKind kind);

// The process's exit code for an error of this kind (docs/design.md, section 7).
int exit_code(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error(kind) with the parts streamed one after the other.
// Example: fail(ErrorKind::kInput, path, ": header is ", got, " bytes, want at most ", limit);
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream message;
  message.imbue(std::locale::classic());  // whatever a host program's numbers look like
  (message << ... << parts);
  throw Error(kind, message.str());
}

// Fails with kInternal if `condition` is false: a bug of ours, never wrong input.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) fail(ErrorKind::kInternal, "internal check failed: ", parts...);
}

}  // namespace colibri
