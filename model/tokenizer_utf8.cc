#include "model/tokenizer_utf8.h"

#include <algorithm>

namespace colibri {
namespace {

struct Lead {
  uint32_t num_bytes;  // 0: no character starts with this byte
  unsigned char second_min, second_max;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// How many bytes of the sequence at `at` fit `lead`, at least 1.
uint32_t fitting_bytes(std::string_view text, size_t at, Lead lead) {
  uint32_t have = 1;
  while (have < lead.num_bytes && at + have < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at + have]);
    const unsigned char low = have == 1 ? lead.second_min : 0x80;
    const unsigned char high = have == 1 ? lead.second_max : 0xbf;
    if (byte < low || byte > high) break;
    ++have;
  }
  return have;
}

}  // namespace

Utf8Char decode_utf8_slowly(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const Lead lead = lead_of(first);
  if (lead.num_bytes == 0) return {0xfffd, 1, false};
  const uint32_t have = fitting_bytes(text, at, lead);
  if (have < lead.num_bytes) return {0xfffd, have, false};
  char32_t code_point = first & (0x7fu >> lead.num_bytes);
  for (uint32_t i = 1; i < have; ++i) {
    code_point = (code_point << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3fu);
  }
  return {code_point, have, true};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto byte = [&out](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xc0 | (code_point >> 6));
    byte(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    byte(0xe0 | (code_point >> 12));
    byte(0x80 | ((code_point >> 6) & 0x3f));
    byte(0x80 | (code_point & 0x3f));
  } else {
    byte(0xf0 | (code_point >> 18));
    byte(0x80 | ((code_point >> 12) & 0x3f));
    byte(0x80 | ((code_point >> 6) & 0x3f));
    byte(0x80 | (code_point & 0x3f));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = decode_utf8(text, at);
    if (!next.is_valid) return false;
    at += next.num_bytes;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = decode_utf8(text, at);
    out += next.is_valid ? text.substr(at, next.num_bytes) : kReplacementUtf8;
    at += next.num_bytes;
  }
  return out;
}

size_t incomplete_utf8_suffix_bytes(std::string_view text) {
  const size_t most = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= most; ++back) {
    const size_t at = text.size() - back;
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte & 0xc0) == 0x80) continue;
    const Lead lead = lead_of(byte);
    const bool is_open = lead.num_bytes > back && fitting_bytes(text, at, lead) == back;
    return is_open ? back : 0;
  }
  return 0;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace colibri
