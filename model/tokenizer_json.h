// For tokenizer_json*.cc only (it pulls in the JSON library): a checked view of a JSON value, the
// reader that keeps vocabulary and merges out of the JSON tree, and the sections of tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/tokenizer_spec.h"

namespace colibri::tokenizer_json {

using Json = nlohmann::json;

// A value and where it stands ("tokenizer.json: /normalizer/type"). A wrong type or a missing member
// fails with kInput naming the place.
class View {
 public:
  View(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  bool is_object() const { return value_->is_object(); }
  bool is_string() const { return value_->is_string(); }
  bool is_zero() const { return value_->is_number() && value_->get<double>() == 0; }
  bool has(const char* name) const {
    return value_->is_object() && value_->contains(name) && !(*value_)[name].is_null();
  }
  View member(const char* name) const;
  // The members of an array or the values of an object.
  std::vector<View> items() const;
  std::vector<std::pair<std::string, View>> members() const;

  std::string text() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;

  std::string text(const char* name) const { return member(name).text(); }
  bool boolean(const char* name, bool if_absent) const {
    return has(name) ? member(name).boolean() : if_absent;
  }

  [[noreturn]] void fail_type(std::string_view want) const;
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorKind::kUnsupported, where_, ": ", what, " is not supported");
  }

 private:
  const Json* value_;
  std::string where_;
};

// tokenizer.json with /model/vocab and /model/merges taken out.
struct Document {
  Json tree;
  TokenTable vocab;
  TextList merges;
};

// Fails with kInput: not JSON, deeper than 64, a name twice in one object, wrong vocabulary or merges.
Document read_document(std::string_view text, std::string_view file);

void read_normalizers(const View& at, std::vector<NormalizerSpec>& out);
void read_pre_tokenizers(const View& at, std::vector<PreTokenizerSpec>& out);
void read_decoders(const View& at, std::vector<DecoderSpec>& out);
// Adds what the post-processor puts before and behind the text.
void read_post_processor(const View& at, TokenizerSpec& spec);

// Applies tokenizer_config.json to what tokenizer.json said.
void apply_config(const View& config, TokenizerSpec& spec);

}  // namespace colibri::tokenizer_json
