#include "model/tokenizer_json.h"

namespace colibri::tokenizer_json {
namespace {

constexpr size_t kMaxDepth = 64;

// Builds the tree from the parser's events, but writes vocabulary and merges straight to their
// tables: as tree nodes they would take most of the loading time.
class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(Document& out, std::string_view file) : out_(out), file_(file) {}

  bool null() override { return value(Json()); }
  bool boolean(bool v) override { return value(Json(v)); }
  bool number_float(double v, const std::string&) override { return value(Json(v)); }
  bool number_integer(int64_t v) override {
    return mode_ == Mode::kVocab ? token(v) : value(Json(v));
  }
  bool number_unsigned(uint64_t v) override {
    if (mode_ == Mode::kVocab) return token(v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v));
    return value(Json(v));
  }
  bool string(std::string& v) override {
    if (mode_ == Mode::kMerges) return merge(v);
    if (mode_ == Mode::kMergePair) {
      out_.merges.add(v);
      ++num_parts_;
      return true;
    }
    return value(Json(std::move(v)));
  }
  bool binary(Json::binary_t&) override { return false; }

  bool start_object(size_t) override {
    if (is_at_model_member("vocab")) {
      if (has_vocab_) fail(ErrorKind::kInput, file_, ": /model/vocab appears twice");
      has_vocab_ = true;
      mode_ = Mode::kVocab;
      return true;
    }
    return open(Json::object());
  }
  bool key(std::string& name) override {
    if (mode_ == Mode::kTree && stack_.back()->contains(name)) {
      fail(ErrorKind::kInput, file_, ": the name \"", name, "\" appears twice in one object");
    }
    key_ = std::move(name);
    if (mode_ == Mode::kTree && stack_.size() == 1) top_key_ = key_;
    return true;
  }
  bool end_object() override {
    if (mode_ == Mode::kVocab) {
      mode_ = Mode::kTree;
      return true;
    }
    stack_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    if (mode_ == Mode::kMerges) {
      mode_ = Mode::kMergePair;
      num_parts_ = 0;
      return true;
    }
    if (is_at_model_member("merges")) {
      if (out_.merges.size() > 0) fail(ErrorKind::kInput, file_, ": /model/merges appears twice");
      mode_ = Mode::kMerges;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (mode_ == Mode::kMergePair) {
      if (num_parts_ != 2) fail_merge(std::to_string(num_parts_) + " strings");
      mode_ = Mode::kMerges;
    } else if (mode_ == Mode::kMerges) {
      mode_ = Mode::kTree;
    } else {
      stack_.pop_back();
    }
    return true;
  }
  bool parse_error(size_t at, const std::string&, const Json::exception& error) override {
    fail(ErrorKind::kInput, file_, ": not JSON at byte ", at, ": ", error.what());
  }

 private:
  enum class Mode { kTree, kVocab, kMerges, kMergePair };

  bool is_at_model_member(std::string_view name) const {
    return mode_ == Mode::kTree && stack_.size() == 2 && top_key_ == "model" && key_ == name &&
           stack_.back()->is_object();
  }
  [[noreturn]] void fail_merge(const std::string& got) const {
    fail(ErrorKind::kInput, file_, ": /model/merges/", out_.merges.size() / 2, " is ", got,
         ", want two tokens: \"a b\" or [\"a\", \"b\"]");
  }
  [[noreturn]] void fail_value() const {
    if (mode_ == Mode::kVocab) {
      fail(ErrorKind::kInput, file_, ": /model/vocab: token \"", key_, "\" has no whole number as id");
    }
    fail_merge("something else");
  }

  bool token(int64_t id) {
    try {
      out_.vocab.add(key_, id);
    } catch (const Error& error) {
      fail(error.kind(), file_, ": /model/vocab: ", error.what());
    }
    return true;
  }
  bool merge(const std::string& text) {
    const size_t space = text.find(' ');
    if (text.starts_with("#version") && out_.merges.size() == 0) return true;
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fail_merge("\"" + text + "\"");
    }
    out_.merges.add(std::string_view(text).substr(0, space));
    out_.merges.add(std::string_view(text).substr(space + 1));
    return true;
  }

  Json* place(Json&& v) {
    if (stack_.empty()) {
      out_.tree = std::move(v);
      return &out_.tree;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &(parent[key_] = std::move(v));
  }
  bool value(Json&& v) {
    if (mode_ != Mode::kTree) fail_value();
    place(std::move(v));
    return true;
  }
  bool open(Json&& v) {
    if (mode_ != Mode::kTree) fail_value();
    if (stack_.size() >= kMaxDepth) {
      fail(ErrorKind::kInput, file_, ": nested deeper than ", kMaxDepth, " levels");
    }
    stack_.push_back(place(std::move(v)));
    return true;
  }

  Document& out_;
  std::string_view file_;
  Mode mode_ = Mode::kTree;
  std::vector<Json*> stack_;
  std::string key_, top_key_;
  size_t num_parts_ = 0;
  bool has_vocab_ = false;
};

}  // namespace

Document read_document(std::string_view text, std::string_view file) {
  if (text.size() > UINT32_MAX / 2) {
    fail(ErrorKind::kInput, file, " is ", text.size(), " bytes long, want less than 2 GiB");
  }
  Document out;
  Reader reader(out, file);
  if (!Json::sax_parse(text, &reader)) fail(ErrorKind::kInput, file, ": not JSON");
  if (!out.tree.is_object()) fail(ErrorKind::kInput, file, ": want a JSON object at the top");
  return out;
}

void View::fail_type(std::string_view want) const {
  std::string got = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (got.size() > 60) got = got.substr(0, 60) + "...";
  fail(ErrorKind::kInput, where_, " is ", got, ", want ", want);
}

View View::member(const char* name) const {
  if (!value_->is_object()) fail_type("an object");
  const auto at = value_->find(name);
  if (at == value_->end()) fail(ErrorKind::kInput, where_, " has no \"", name, "\"");
  return View(*at, where_ + "/" + name);
}

std::vector<View> View::items() const {
  if (!value_->is_array()) fail_type("an array");
  std::vector<View> out;
  for (size_t i = 0; i < value_->size(); ++i) {
    out.emplace_back((*value_)[i], where_ + "/" + std::to_string(i));
  }
  return out;
}

std::vector<std::pair<std::string, View>> View::members() const {
  if (!value_->is_object()) fail_type("an object");
  std::vector<std::pair<std::string, View>> out;
  for (const auto& [name, value] : value_->items()) {
    out.emplace_back(name, View(value, where_ + "/" + name));
  }
  return out;
}

std::string View::text() const {
  if (!value_->is_string()) fail_type("a string");
  return value_->get<std::string>();
}

bool View::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

int64_t View::integer(int64_t low, int64_t high) const {
  const bool is_in_range = value_->is_number_integer() &&
                           (!value_->is_number_unsigned() || value_->get<uint64_t>() <= INT64_MAX) &&
                           value_->get<int64_t>() >= low && value_->get<int64_t>() <= high;
  if (!is_in_range) {
    fail_type("a whole number in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
  }
  return value_->get<int64_t>();
}

}  // namespace colibri::tokenizer_json
