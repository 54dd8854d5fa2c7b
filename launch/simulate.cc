#include "launch/simulate.h"

#include "base/error.h"

namespace colibri {

int simulate(const RunConfig&) {
  fail(ErrorKind::kUnsupported, "simulate is not part of this version");
}

}  // namespace colibri
