// UTF-8 and a few character classes, as the tokenizer needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri {

inline constexpr std::string_view kReplacementUtf8 = "\xef\xbf\xbd";  // U+FFFD

// One decoded character, or one maximal ill-formed part.
struct Utf8Char {
  char32_t code_point = 0;  // U+FFFD when ill-formed
  uint32_t num_bytes = 0;   // bytes it takes, at least 1
  bool is_valid = true;
};

// decode_utf8 for what is neither ASCII nor a well-formed pair.
Utf8Char decode_utf8_slowly(std::string_view text, size_t at);

// Decodes at text[at]; at < text.size(). An ill-formed sequence is cut as Python's errors="replace"
// cuts it (Unicode, section 3.9: one U+FFFD for each maximal subpart).
inline Utf8Char decode_utf8(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, true};
  if (first >= 0xc2 && first < 0xe0 && at + 1 < text.size()) {
    const auto second = static_cast<unsigned char>(text[at + 1]);
    if ((second & 0xc0) == 0x80) return {((first & 0x1fu) << 6) | (second & 0x3fu), 2, true};
  }
  return decode_utf8_slowly(text, at);
}

// Appends the encoding of a scalar value.
void append_utf8(std::string& out, char32_t code_point);

// True if all of `text` is well formed. O(n).
bool is_valid_utf8(std::string_view text);

// `text` with every ill-formed part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// How many bytes at the end of `text` begin a character that later bytes could complete: 0 to 3.
size_t incomplete_utf8_suffix_bytes(std::string_view text);

// Unicode White_Space.
bool is_white_space(char32_t code_point);

}  // namespace colibri
