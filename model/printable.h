// Text from files in messages: short, one line, no control characters.
#pragma once

#include <string>
#include <string_view>

namespace colibri {

// At most `max_bytes` of `text` with "..." where it is cut; control characters become '?'. A cut
// falls between UTF-8 characters.
inline std::string printable(std::string_view text, size_t max_bytes = 120) {
  const bool is_cut = text.size() > max_bytes;
  size_t size = is_cut ? max_bytes : text.size();
  while (is_cut && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  std::string result(text.substr(0, size));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (is_cut) result += "...";
  return result;
}

}  // namespace colibri
