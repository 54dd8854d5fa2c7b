#include "launch/bench.h"

#include "base/error.h"

namespace colibri {

int bench(const RunConfig&, RankContext&) {
  fail(ErrorKind::kUnsupported, "'bench' is not part of this version");
}

}  // namespace colibri
