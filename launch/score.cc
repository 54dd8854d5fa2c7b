#include "launch/score.h"

#include "base/error.h"

namespace colibri {

int score(const RunConfig&, RankContext&) {
  fail(ErrorKind::kUnsupported, "'score' is not part of this version");
}

}  // namespace colibri
