// A check of TOML text before toml++ reads it: what that cannot be trusted with.
#pragma once

#include <optional>
#include <string_view>

namespace colibri {

struct TomlTrap {
  int line = 0;
  const char* what = "";  // for a message
};

// The first of these outside strings and comments, if there is one:
// * a key of more than 33 parts: toml++ destroys tables by recursion, so that one of a hundred
//   thousand parts would end the stack;
// * a character outside ASCII, which TOML does not allow there: toml++ 3.3 looks for blanks with a
//   table that ends in undefined behaviour for some (U+FEFB).
// A byte order mark at the beginning is none. A quoted key behind a dot inside {} counts as
// outside.
std::optional<TomlTrap> find_toml_trap(std::string_view text);

}  // namespace colibri
