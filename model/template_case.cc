// Upper and lower case, and repr, of Python's strings.
#include <utf8proc.h>

#include <array>
#include <cstdio>
#include <string>

#include "model/template_text.h"
#include "model/tokenizer_utf8.h"

namespace colibri::jinja {
namespace {

struct Widened {
  char32_t from;
  const char* upper;
  const char* title;
};

// Letters whose upper case is more than one letter, of those that everyday text has.
constexpr std::array<Widened, 9> kWidened = {{{0xdf, "SS", "Ss"},
                                              {0x149, "\u02bcN", "\u02bcN"},
                                              {0xfb00, "FF", "Ff"},
                                              {0xfb01, "FI", "Fi"},
                                              {0xfb02, "FL", "Fl"},
                                              {0xfb03, "FFI", "Ffi"},
                                              {0xfb04, "FFL", "Ffl"},
                                              {0xfb05, "ST", "St"},
                                              {0xfb06, "ST", "St"}}};

const Widened* widened(char32_t c) {
  for (const Widened& entry : kWidened) {
    if (entry.from == c) return &entry;
  }
  return nullptr;
}

void append_upper(std::string& out, char32_t c) {
  if (const Widened* entry = widened(c)) {
    out += entry->upper;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const Widened* entry = widened(c)) {
    out += entry->title;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<int32_t>(c))));
  }
}

bool is_letter(char32_t c) {
  const auto category = utf8proc_category(static_cast<int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

// A capital sigma at the end of a word has a lower case of its own.
bool is_final_sigma(std::string_view text, size_t at, bool after_letter) {
  return after_letter &&
         (at + 2 >= text.size() || !is_letter(decode_utf8(text, at + 2).code_point));
}

void append_lower(std::string& out, std::string_view text, size_t at, bool after_letter) {
  const char32_t c = decode_utf8(text, at).code_point;
  if (c == 0x130) {
    out += "i\u0307";
  } else if (c == 0x3a3) {
    append_utf8(out, is_final_sigma(text, at, after_letter) ? 0x3c2 : 0x3c3);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(c))));
  }
}

// Each character by `raise(character, previous)`: title case where it says so, else lower case.
template <class Raise>
std::string cased(std::string_view text, const Raise& raise) {
  std::string result;
  char32_t previous = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    if (raise(at, previous)) {
      append_title(result, character.code_point);
    } else {
      append_lower(result, text, at, previous != 0 && is_letter(previous));
    }
    previous = character.code_point;
    at += character.num_bytes;
  }
  return result;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto category = utf8proc_category(static_cast<int32_t>(c));
  // Others (control, format, surrogate, private, unassigned) and separators.
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

void append_escaped(std::string& out, char32_t c) {
  char buffer[12];
  const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer, sizeof(buffer), format, static_cast<unsigned>(c));
  out += buffer;
}

}  // namespace

std::string upper(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    append_upper(result, character.code_point);
    at += character.num_bytes;
  }
  return result;
}

std::string lower(std::string_view text) {
  return cased(text, [](size_t, char32_t) { return false; });
}

std::string capitalize(std::string_view text) {
  return cased(text, [](size_t at, char32_t) { return at == 0; });
}

std::string title(std::string_view text) {
  return cased(text, [](size_t, char32_t previous) { return !is_letter(previous); });
}

std::string title_words(std::string_view text) {
  const auto is_break = [](char32_t c) {
    return is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  // A word that begins with a break is the break itself: nothing to raise there.
  return cased(text, [&](size_t at, char32_t previous) { return at == 0 || is_break(previous); });
}

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string result(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    const char32_t c = character.code_point;
    at += character.num_bytes;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      append_utf8(result, c);
    } else {
      append_escaped(result, c);
    }
  }
  return result + quote;
}

}  // namespace colibri::jinja
