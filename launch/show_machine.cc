#include "launch/show_machine.h"

#include "base/error.h"

namespace colibri {

int show_machine(const RunConfig&) {
  fail(ErrorKind::kUnsupported, "show_machine is not part of this version");
}

}  // namespace colibri
