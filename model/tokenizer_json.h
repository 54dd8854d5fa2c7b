// For tokenizer_json*.cc only: a checked view of a JSON value, the reader that keeps vocabulary and
// merges out of the JSON tree, and the sections of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/json_value.h"
#include "model/tokenizer_spec.h"

namespace colibri::tokenizer_json {

// A value and where it stands ("tokenizer.json: /normalizer/type"). A wrong type or a missing
// member fails with kInput naming the place.
class View {
 public:
  View(const JsonValue& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_null() const { return value_->kind == JsonKind::kNull; }
  bool is_object() const { return value_->kind == JsonKind::kObject; }
  bool is_string() const { return value_->kind == JsonKind::kString; }
  bool is_zero() const {
    return (value_->kind == JsonKind::kInteger || value_->kind == JsonKind::kReal) &&
           value_->real == 0;
  }
  // True for a member that is there and not null.
  bool has(const std::string& name) const;
  View member(const std::string& name) const;
  std::vector<View> items() const;
  std::vector<std::pair<std::string, View>> members() const;

  std::string text() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;

  std::string text(const std::string& name) const { return member(name).text(); }
  bool boolean(const std::string& name, bool if_absent) const {
    return has(name) ? member(name).boolean() : if_absent;
  }

  [[noreturn]] void fail_type(std::string_view want) const;
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorKind::kUnsupported, where_, ": ", what, " is not supported");
  }

 private:
  const JsonValue* value_;
  std::string where_;
};

// tokenizer.json with /model/vocab and /model/merges taken out.
struct Document {
  JsonValue tree;
  TokenTable vocab;
  TextList merges;
};

// Fails with kInput: not JSON, deeper than 64, a name twice in one object, wrong vocabulary or
// merges.
Document read_document(std::string_view text, std::string_view file);

void read_normalizers(const View& at, std::vector<NormalizerSpec>& out);
void read_pre_tokenizers(const View& at, std::vector<PreTokenizerSpec>& out);
void read_decoders(const View& at, std::vector<DecoderSpec>& out);
// Adds what the post-processor puts before and behind the text.
void read_post_processor(const View& at, TokenizerSpec& spec);

// Applies tokenizer_config.json to what tokenizer.json said.
void apply_config(const View& config, TokenizerSpec& spec);

}  // namespace colibri::tokenizer_json
