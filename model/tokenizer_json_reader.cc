#include <unordered_set>

#include "model/tokenizer_json.h"
#include "model/tokenizer_json_scan.h"

namespace colibri::tokenizer_json {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = 1'000'000;

JsonValue make(JsonKind kind) {
  JsonValue value;
  value.kind = kind;
  return value;
}

JsonValue make_integer(int64_t integer) {
  JsonValue value = make(JsonKind::kInteger);
  value.integer = integer;
  value.real = static_cast<double>(integer);
  value.text = std::to_string(integer);
  return value;
}

JsonValue make_real(double real) {
  JsonValue value = make(JsonKind::kReal);
  value.real = real;
  value.text = std::to_string(real);
  return value;
}

// Builds the tree from the parser's events, but writes vocabulary and merges straight to their
// tables: as tree nodes they would take most of the loading time.
class Reader : public ScanEvents {
 public:
  Reader(Document& out, std::string_view file) : out_(out), file_(file) {}

  void null() override { value(make(JsonKind::kNull)); }
  void boolean(bool v) override {
    JsonValue out = make(JsonKind::kBool);
    out.boolean = v;
    value(std::move(out));
  }
  void real(double v) override { value(make_real(v)); }
  void integer(int64_t v) override {
    if (mode_ == Mode::kVocab) return token(v);
    value(make_integer(v));
  }
  void string(std::string_view v) override {
    if (mode_ == Mode::kMerges) return merge(v);
    if (mode_ == Mode::kMergePair) {
      out_.merges.add(v);
      ++num_parts_;
      return;
    }
    JsonValue out = make(JsonKind::kString);
    out.text = v;
    value(std::move(out));
  }

  void start_object() override {
    if (!is_at_model_member("vocab")) return open(JsonKind::kObject);
    mode_ = Mode::kVocab;
  }
  void key(std::string_view name) override {
    key_ = name;
    if (mode_ != Mode::kTree) return;
    if (!names_.back().insert(key_).second) {
      fail(ErrorKind::kInput, file_, ": the name \"", name, "\" appears twice in one object");
    }
    if (stack_.size() == 1) top_key_ = key_;
  }
  void end_object() override {
    if (mode_ != Mode::kVocab) return close();
    mode_ = Mode::kTree;
  }
  void start_array() override {
    if (mode_ == Mode::kMerges) {
      mode_ = Mode::kMergePair;
      num_parts_ = 0;
    } else if (is_at_model_member("merges")) {
      mode_ = Mode::kMerges;
    } else {
      open(JsonKind::kArray);
    }
  }
  void end_array() override {
    if (mode_ == Mode::kMergePair) {
      if (num_parts_ != 2) fail_merge(std::to_string(num_parts_) + " strings");
      mode_ = Mode::kMerges;
    } else if (mode_ == Mode::kMerges) {
      mode_ = Mode::kTree;
    } else {
      close();
    }
  }

 private:
  enum class Mode { kTree, kVocab, kMerges, kMergePair };

  bool is_at_model_member(std::string_view name) const {
    return mode_ == Mode::kTree && stack_.size() == 2 && top_key_ == "model" && key_ == name &&
           stack_.back()->kind == JsonKind::kObject;
  }
  [[noreturn]] void fail_merge(const std::string& got) const {
    fail(ErrorKind::kInput, file_, ": /model/merges/", out_.merges.size() / 2, " is ", got,
         ", want two tokens: \"a b\" or [\"a\", \"b\"]");
  }
  [[noreturn]] void fail_value() const {
    if (mode_ == Mode::kVocab) {
      fail(ErrorKind::kInput, file_, ": /model/vocab: token \"", key_,
           "\" has no whole number as id");
    }
    fail_merge("something else");
  }

  void token(int64_t id) {
    try {
      out_.vocab.add(key_, id);
    } catch (const Error& error) {
      fail(error.kind(), file_, ": /model/vocab: ", error.what());
    }
  }
  void merge(std::string_view text) {
    const size_t space = text.find(' ');
    if (text.starts_with("#version") && out_.merges.size() == 0) return;
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      fail_merge("\"" + std::string(text) + "\"");
    }
    out_.merges.add(text.substr(0, space));
    out_.merges.add(text.substr(space + 1));
  }

  JsonValue* place(JsonValue&& v) {
    if (stack_.empty()) {
      out_.tree = std::move(v);
      return &out_.tree;
    }
    if (++num_values_ > kMaxValues) {
      fail(ErrorKind::kInput, file_, ": more than ", kMaxValues, " values besides the vocabulary");
    }
    JsonValue& parent = *stack_.back();
    if (parent.kind == JsonKind::kObject) parent.keys.push_back(key_);
    parent.items.push_back(std::move(v));
    return &parent.items.back();
  }
  void value(JsonValue&& v) {
    if (mode_ != Mode::kTree) fail_value();
    place(std::move(v));
  }
  void open(JsonKind kind) {
    if (mode_ != Mode::kTree) fail_value();
    if (stack_.size() >= kMaxDepth) {
      fail(ErrorKind::kInput, file_, ": nested deeper than ", kMaxDepth, " levels");
    }
    stack_.push_back(place(make(kind)));
    names_.emplace_back();
  }

  void close() {
    stack_.pop_back();
    names_.pop_back();
  }

  Document& out_;
  std::string_view file_;
  Mode mode_ = Mode::kTree;
  std::vector<JsonValue*> stack_;
  std::vector<std::unordered_set<std::string>> names_;  // of each open value
  std::string key_, top_key_;
  size_t num_parts_ = 0, num_values_ = 0;
};

}  // namespace

Document read_document(std::string_view text, std::string_view file) {
  if (text.size() > UINT32_MAX / 2) {
    fail(ErrorKind::kInput, file, " is ", text.size(), " bytes long, want less than 2 GiB");
  }
  Document out;
  Reader reader(out, file);
  scan_json(text, file, reader);
  if (out.tree.kind != JsonKind::kObject)
    fail(ErrorKind::kInput, file, ": want a JSON object at the top");
  return out;
}

void View::fail_type(std::string_view want) const {
  fail(ErrorKind::kInput, where_, " is ", value_->describe(), ", want ", want);
}

bool View::has(const std::string& name) const {
  if (value_->kind != JsonKind::kObject) return false;
  const JsonValue* found = value_->find(name);
  return found != nullptr && found->kind != JsonKind::kNull;
}

View View::member(const std::string& name) const {
  if (value_->kind != JsonKind::kObject) fail_type("an object");
  const JsonValue* found = value_->find(name);
  if (found == nullptr) fail(ErrorKind::kInput, where_, " has no \"", name, "\"");
  return View(*found, where_ + "/" + name);
}

std::vector<View> View::items() const {
  if (value_->kind != JsonKind::kArray) fail_type("an array");
  std::vector<View> out;
  for (size_t i = 0; i < value_->items.size(); ++i) {
    out.emplace_back(value_->items[i], where_ + "/" + std::to_string(i));
  }
  return out;
}

std::vector<std::pair<std::string, View>> View::members() const {
  if (value_->kind != JsonKind::kObject) fail_type("an object");
  std::vector<std::pair<std::string, View>> out;
  for (size_t i = 0; i < value_->items.size(); ++i) {
    out.emplace_back(value_->keys[i], View(value_->items[i], where_ + "/" + value_->keys[i]));
  }
  return out;
}

std::string View::text() const {
  if (!is_string()) fail_type("a string");
  return value_->text;
}

bool View::boolean() const {
  if (value_->kind != JsonKind::kBool) fail_type("true or false");
  return value_->boolean;
}

int64_t View::integer(int64_t low, int64_t high) const {
  if (value_->kind != JsonKind::kInteger || value_->integer < low || value_->integer > high) {
    fail_type("a whole number in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
  }
  return value_->integer;
}

}  // namespace colibri::tokenizer_json
