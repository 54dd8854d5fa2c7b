#include "launch/plan.h"

#include "base/error.h"

namespace colibri {

int plan(const RunConfig&) { fail(ErrorKind::kUnsupported, "plan is not part of this version"); }

}  // namespace colibri
