#include "model/template_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "model/template_text.h"
#include "model/tokenizer_utf8.h"

namespace colibri::jinja {

namespace {

// Python's shortest digits that read back as the same number; an exponent below 1e-4 and from 1e16.
std::string real_text(double real) {
  if (std::isnan(real)) return "nan";
  if (std::isinf(real)) return real < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written =
      std::to_chars(buffer, buffer + sizeof(buffer), real, std::chars_format::scientific);
  const std::string text(buffer, written.ptr);
  const int exponent = std::atoi(text.c_str() + text.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), real, std::chars_format::fixed);
  std::string result(buffer, fixed.ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

std::string joined(const Sequence& sequence) {
  std::string result;
  for (const Value& item : sequence.items) {
    if (!result.empty()) result += ", ";
    result += repr(item);
  }
  return result;
}

std::string sequence_text(const Value& value, const Sequence& sequence) {
  switch (sequence.kind) {
    case SequenceKind::kList:
      return "[" + joined(sequence) + "]";
    case SequenceKind::kTuple:
      return "(" + joined(sequence) + (sequence.items.size() == 1 ? ",)" : ")");
    case SequenceKind::kRange:
      if (!sequence.printed.empty()) return sequence.printed;
      break;
    case SequenceKind::kView:
      return sequence.printed + "([" + joined(sequence) + "])";
    case SequenceKind::kGenerator:
      break;
  }
  fail(ErrorKind::kInput, "a ", type_name(value),
       " has no text of its own; put '| list' or '| join' after it");
}

std::string dict_text(const Dict& dict) {
  std::string result = "{";
  for (const auto& [key, item] : dict.items()) {
    if (result.size() > 1) result += ", ";
    result += repr(key) + ": " + repr(item);
  }
  return result + "}";
}

void append_json_text(std::string& out, std::string_view text, bool ensure_ascii) {
  const auto unit = [&out](unsigned value) {
    char buffer[16];
    std::snprintf(buffer, sizeof(buffer), "\\u%04x", value);
    out += buffer;
  };
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    const char32_t c = character.code_point;
    const std::string_view bytes = text.substr(at, character.num_bytes);
    at += character.num_bytes;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += bytes;
    } else if (c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t') {
      out += c == '\b' ? "\\b" : c == '\f' ? "\\f" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c < 0x20 || (ensure_ascii && c > 0x7e && c < 0x10000)) {
      unit(c);
    } else if (ensure_ascii && c >= 0x10000) {
      unit(0xd800 + ((c - 0x10000) >> 10));
      unit(0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
      out += bytes;
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(std::string& out, const JsonFormat& format) : out_(out), format_(format) {}

  void write(const Value& value) {
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is<bool>()) {
      out_ += value.as<bool>() ? "true" : "false";
    } else if (value.is<int64_t>()) {
      out_ += std::to_string(value.as<int64_t>());
    } else if (value.is<double>()) {
      out_ += number(value.as<double>());
    } else if (const std::string* text = value.text()) {
      append_json_text(out_, *text, format_.ensure_ascii);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict);
    } else if (const Sequence* sequence = value.sequence();
               sequence && sequence->kind <= SequenceKind::kTuple) {
      write_list(*sequence);
    } else {
      fail(ErrorKind::kInput, "tojson: a ", type_name(value), " is not JSON");
    }
  }

 private:
  static std::string number(double real) {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return real_text(real);
  }

  void new_line() {
    if (!format_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += *format_.indent;
  }

  void begin_item(bool is_first) {
    if (!is_first) out_ += format_.item_separator;
    new_line();
  }

  void write_list(const Sequence& sequence) {
    out_ += '[';
    ++depth_;
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      begin_item(i == 0);
      write(sequence.items[i]);
    }
    --depth_;
    if (!sequence.items.empty()) new_line();
    out_ += ']';
  }

  void write_key(const Value& key) {
    if (const std::string* text = key.text()) {
      append_json_text(out_, *text, format_.ensure_ascii);
      return;
    }
    out_ += '"';
    write(key);
    out_ += '"';
  }

  void write_dict(const Dict& dict) {
    auto items = dict.items();
    if (format_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [](const auto& left, const auto& right) {
        return less(left.first, right.first);
      });
    }
    out_ += '{';
    ++depth_;
    bool is_first = true;
    for (const auto& [key, item] : items) {
      begin_item(is_first);
      is_first = false;
      write_key(key);
      out_ += format_.key_separator;
      write(item);
    }
    --depth_;
    if (!is_first) new_line();
    out_ += '}';
  }

  std::string& out_;
  const JsonFormat& format_;
  int depth_ = 0;
};

}  // namespace

std::string to_text(const Value& value) {
  if (value.is_undefined()) return {};
  if (const std::string* text = value.text()) return *text;
  return repr(value);
}

std::string repr(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.is<bool>()) return value.as<bool>() ? "True" : "False";
  if (value.is<int64_t>()) return std::to_string(value.as<int64_t>());
  if (value.is<double>()) return real_text(value.as<double>());
  if (const std::string* text = value.text()) return quoted(*text);
  if (const Dict* dict = value.dict()) return dict_text(*dict);
  if (const Sequence* sequence = value.sequence()) return sequence_text(value, *sequence);
  fail(ErrorKind::kInput, "a ", type_name(value), " cannot be printed");
}

std::string to_json(const Value& value, const JsonFormat& format) {
  std::string out;
  JsonWriter(out, format).write(value);
  return out;
}

}  // namespace colibri::jinja
