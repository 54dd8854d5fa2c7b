#include "model/template_json.h"

#include <vector>

#include "base/error.h"
#include "model/json_events.h"
#include "model/printable.h"

namespace colibri::jinja {
namespace {

class ValueBuilder : public JsonEvents {
 public:
  explicit ValueBuilder(const std::string& where) : where_(where) {}

  void scalar(JsonScalar& value) override { add(value_of(value)); }
  void key(std::string& name) override { open_.back().keys.push_back(Value(std::move(name))); }
  void begin(JsonKind kind) override { open_.push_back({kind, {}, {}}); }

  void end() override {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.kind == JsonKind::kArray) {
      add(make_list(std::move(done.items)));
      return;
    }
    Dict dict;
    for (size_t i = 0; i < done.items.size(); ++i) {
      dict.set(done.keys[i], std::move(done.items[i]));
    }
    add(make_dict(std::move(dict)));
  }

  Value result() { return std::move(result_); }

 private:
  struct Open {
    JsonKind kind;
    std::vector<Value> keys;
    std::vector<Value> items;
  };

  Value value_of(JsonScalar& value) const {
    switch (value.kind) {
      case JsonKind::kNull:
        return Value();
      case JsonKind::kBool:
        return Value(value.boolean);
      case JsonKind::kInteger:
        return Value(value.integer);
      case JsonKind::kReal:
        if (value.text.find_first_of(".eE") == std::string::npos && value.text != "-0") {
          fail(ErrorKind::kInput, where_,
               ": an integer of more than 64 bits: ", printable(value.text, 40));
        }
        return value.text == "-0" ? Value(int64_t{0}) : Value(value.real);
      case JsonKind::kString:
        return Value(std::move(value.text));
      case JsonKind::kArray:
      case JsonKind::kObject:
        break;
    }
    fail(ErrorKind::kInternal, "a container came as a scalar");
  }

  void add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
  }

  const std::string& where_;
  std::vector<Open> open_;
  Value result_;
};

}  // namespace

Value parse_value(std::string_view json, const std::string& where) {
  ValueBuilder builder(where);
  try {
    parse_json_events(json, where, builder);
    return builder.result();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.substr(0, where.size()) == where) throw;
    fail(error.kind(), where, ": ", message);
  }
}

}  // namespace colibri::jinja
