#include "launch/standard_out.h"

#include <cstdio>

#include "base/error.h"

namespace colibri {

void write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorKind::kEnvironment, "cannot write to stdout; is the reader gone?");
  }
}

}  // namespace colibri
