#include "model/template_text.h"

#include <algorithm>

#include "model/tokenizer_utf8.h"

namespace colibri::jinja {
namespace {

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

// The last character of `text`, which is not empty.
std::string_view last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return text.substr(at);
}

bool is_stripped(std::string_view character, const std::optional<std::string_view>& chars) {
  if (!chars) return is_python_space(decode_utf8(character, 0).code_point);
  return chars->find(character) != std::string_view::npos;
}

}  // namespace

bool is_python_space(char32_t code_point) {
  return is_white_space(code_point) || (code_point >= 0x1c && code_point <= 0x1f);
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  for (size_t at = 0; at < text.size();) {
    const size_t size = decode_utf8(text, at).num_bytes;
    result.push_back(text.substr(at, size));
    at += size;
  }
  return result;
}

int64_t num_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side) {
  const auto sides = static_cast<unsigned>(side);
  while (!text.empty() && (sides & 1u)) {
    const size_t size = decode_utf8(text, 0).num_bytes;
    if (!is_stripped(text.substr(0, size), chars)) break;
    text.remove_prefix(size);
  }
  while (!text.empty() && (sides & 2u)) {
    const std::string_view last = last_character(text);
    if (!is_stripped(last, chars)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    int64_t limit) {
  std::vector<std::string_view> parts;
  for (; limit != 0; --limit) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator,
                                     int64_t limit) {
  std::vector<std::string_view> parts;
  for (; limit != 0; --limit) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_words(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = strip(text, {}, Side::kLeft);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const Utf8Char character = decode_utf8(text, end);
      if (is_python_space(character.code_point)) break;
      end += character.num_bytes;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), {}, Side::kLeft);
  }
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    const size_t end = at;
    at += character.num_bytes;
    if (!is_line_end(character.code_point)) continue;
    if (character.code_point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace(std::string_view text, std::string_view old, std::string_view by,
                    int64_t limit) {
  std::string result;
  if (old.empty()) {
    for (const std::string_view character : characters(text)) {
      if (limit != 0) result += by;
      if (limit > 0) --limit;
      result += character;
    }
    if (limit != 0) result += by;
    return result;
  }
  for (; limit != 0; --limit) {
    const size_t at = text.find(old);
    if (at == std::string_view::npos) break;
    result += text.substr(0, at);
    result += by;
    text.remove_prefix(at + old.size());
  }
  result += text;
  return result;
}

int64_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return num_characters(text) + 1;
  int64_t result = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++result;
  }
  return result;
}

}  // namespace colibri::jinja
