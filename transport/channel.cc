#include "transport/transport.h"

namespace colibri {

const char* to_string(Channel channel) {
  switch (channel) {
    case Channel::kControl:
      return "control";
    case Channel::kRows:
      return "rows";
    case Channel::kResults:
      return "results";
    case Channel::kStartup:
      return "startup";
  }
  return "unknown channel";
}

}  // namespace colibri
