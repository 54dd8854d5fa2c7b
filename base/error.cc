#include "base/error.h"

namespace colibri {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kEnvironment:
      return "environment";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kRankLost:
      return "rank lost";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
      return 2;
    case ErrorKind::kEnvironment:
    case ErrorKind::kUnsupported:
      return 3;
    case ErrorKind::kTimeout:
    case ErrorKind::kRankLost:
      return 4;
    case ErrorKind::kInternal:
      return 70;
  }
  return 70;
}

}  // namespace colibri
