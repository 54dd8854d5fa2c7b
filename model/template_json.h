// JSON to values of a template.
#pragma once

#include <string>
#include <string_view>

#include "model/template_value.h"

namespace colibri::jinja {

// As Python's json.loads: the last of equal keys counts. Fails with kInput naming `where` for what
// is not JSON, is nested deeper than kMaxJsonDepth, or has an integer of more than 64 bits.
Value parse_value(std::string_view json, const std::string& where);

}  // namespace colibri::jinja
