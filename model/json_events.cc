#include "model/json_events.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/small_file.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

using Json = nlohmann::json;

// Translates nlohmann's callbacks; the names are its interface.
class Adapter {
 public:
  Adapter(std::string_view text, const std::string& where, JsonEvents& events)
      : text_(text), where_(where), events_(events) {}

  bool null() { return send(JsonKind::kNull); }
  bool boolean(bool value) {
    scalar_.boolean = value;
    return send(JsonKind::kBool);
  }
  bool number_integer(int64_t value) { return send_integer(value); }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return send_integer(static_cast<int64_t>(value));
    }
    return number_float(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(double value, const std::string& written) {
    scalar_.real = value;
    scalar_.text = written;
    return send(JsonKind::kReal);
  }
  bool string(std::string& value) {
    scalar_.text.swap(value);
    return send(JsonKind::kString);
  }
  bool binary(Json::binary_t&) { fail(ErrorKind::kInternal, where_, ": binary value in text"); }
  bool start_object(size_t) { return open(JsonKind::kObject); }
  bool start_array(size_t) { return open(JsonKind::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    events_.key(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) {
    const std::string other = describe_wrong_content(text_);
    if (!other.empty()) fail(ErrorKind::kInput, where_, ": ", other);
    if (!is_valid_utf8(text_)) {
      fail(ErrorKind::kInput, where_, ": not UTF-8 text; want JSON in UTF-8");
    }
    fail(ErrorKind::kInput, where_, ": not JSON at byte ", position, ": ", error.what());
  }

 private:
  bool send(JsonKind kind) {
    scalar_.kind = kind;
    events_.scalar(scalar_);
    return true;
  }
  bool send_integer(int64_t value) {
    scalar_.integer = value;
    scalar_.text = std::to_string(value);
    return send(JsonKind::kInteger);
  }
  bool open(JsonKind kind) {
    if (++depth_ > kMaxJsonDepth) {
      fail(ErrorKind::kInput, where_, ": JSON nested deeper than ", kMaxJsonDepth, " levels");
    }
    events_.begin(kind);
    return true;
  }
  bool close() {
    --depth_;
    events_.end();
    return true;
  }

  std::string_view text_;
  const std::string& where_;
  JsonEvents& events_;
  JsonScalar scalar_;
  int depth_ = 0;
};

}  // namespace

const char* to_string(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "true or false";
    case JsonKind::kInteger:
      return "an integer";
    case JsonKind::kReal:
      return "a number";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "a list";
    case JsonKind::kObject:
      return "an object";
  }
  return "unknown";
}

void parse_json_events(std::string_view text, const std::string& where, JsonEvents& events) {
  Adapter adapter(text, where, events);
  Json::sax_parse(text.begin(), text.end(), &adapter);
}

}  // namespace colibri
