// A check of TOML text before toml++ reads it.
#pragma once

#include <string_view>

namespace colibri {

// The first line with a key of more than 33 parts, 0 if there is none: toml++ destroys tables by
// recursion, so a key of a hundred thousand parts would end the stack. Strings and comments do not
// count.
int line_of_long_toml_key(std::string_view text);

}  // namespace colibri
