#include "launch/convert.h"

#include "base/error.h"

namespace colibri {

int convert(const ConvertOptions&) {
  fail(ErrorKind::kUnsupported, "'convert' is not part of this version");
}

}  // namespace colibri
