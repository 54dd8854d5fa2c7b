#include "model/tokenizer_json.h"

#include <algorithm>
#include <unordered_set>

namespace colibri {
namespace tokenizer_json {
namespace {

constexpr size_t kMaxAddedTokens = 20'000;  // looked through one by one below

void read_model(const View& model, BpeSpec& bpe) {
  const std::string type = model.has("type") ? model.text("type") : "BPE";
  if (type != "BPE") model.refuse("model type \"" + type + "\" (only BPE)");
  if (model.has("dropout") && !(model.member("dropout").is_zero())) {
    model.member("dropout").refuse("dropout");
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.has(name) && !model.text(name).empty()) model.member(name).refuse(name);
  }
  if (model.has("unk_token")) bpe.unk_token = model.text("unk_token");
  bpe.fuse_unk = model.boolean("fuse_unk", false);
  bpe.byte_fallback = model.boolean("byte_fallback", false);
  bpe.ignore_merges = model.boolean("ignore_merges", false);
}

AddedTokenSpec read_added_token(const View& at, int32_t id) {
  AddedTokenSpec token;
  token.id = id;
  token.content = at.text("content");
  if (token.content.empty()) at.member("content").refuse("an empty added token");
  token.single_word = at.boolean("single_word", false);
  token.lstrip = at.boolean("lstrip", false);
  token.rstrip = at.boolean("rstrip", false);
  token.special = at.boolean("special", false);
  token.normalized = at.boolean("normalized", !token.special);
  return token;
}

// An added token either is a vocabulary token or has an id that nobody has.
void check_added_token(const View& at, const AddedTokenSpec& token, const TokenTable& vocab) {
  const int32_t vocab_id = vocab.id_of(token.content);
  if (vocab_id != kNoToken && vocab_id != token.id) {
    fail(ErrorKind::kInput, at.where(), ": added token \"", token.content, "\" has id ", token.id,
         ", but /model/vocab gives it ", vocab_id);
  }
  if (vocab_id == kNoToken && vocab.has(token.id)) {
    fail(ErrorKind::kInput, at.where(), ": added token \"", token.content, "\" has id ", token.id,
         ", which /model/vocab gives to \"", vocab.text_of(token.id), "\"");
  }
}

void read_added_tokens(const View& section, TokenizerSpec& spec) {
  if (section.is_null()) return;
  std::unordered_set<std::string> contents;
  std::unordered_set<int32_t> ids;
  const std::vector<View> items = section.items();
  if (items.size() > kMaxAddedTokens) section.refuse("more than 20000 added tokens");
  for (const View& at : items) {
    const auto id = static_cast<int32_t>(at.member("id").integer(0, kMaxTokens - 1));
    AddedTokenSpec token = read_added_token(at, id);
    check_added_token(at, token, spec.bpe.vocab);
    if (!ids.insert(id).second || !contents.insert(token.content).second) {
      fail(ErrorKind::kInput, at.where(), ": added token \"", token.content, "\" or its id ", id,
           " appears twice");
    }
    spec.added_tokens.push_back(std::move(token));
  }
}

View section_of(const JsonValue& tree, const char* name, const JsonValue& null) {
  const JsonValue* found = tree.find(name);
  return View(found != nullptr ? *found : null, std::string("tokenizer.json: /") + name);
}

int32_t num_ids(const TokenizerSpec& spec) {
  int32_t most = spec.bpe.vocab.num_ids();
  for (const AddedTokenSpec& token : spec.added_tokens) most = std::max(most, token.id + 1);
  return most;
}

// Template ids are emitted as they are; every one must be a token.
void check_ids(const TokenizerSpec& spec) {
  const auto is_token = [&spec](int32_t id) {
    return spec.bpe.vocab.has(id) ||
           std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                       [id](const AddedTokenSpec& token) { return token.id == id; });
  };
  for (const auto* ids : {&spec.prefix_ids, &spec.suffix_ids}) {
    for (const int32_t id : *ids) {
      if (!is_token(id)) {
        fail(ErrorKind::kInput, "tokenizer.json: /post_processor adds id ", id,
             ", which is no token; want one of the ", num_ids(spec), " ids");
      }
    }
  }
}

TokenizerSpec read_tokenizer(std::string_view text) {
  Document document = read_document(text, "tokenizer.json");
  const JsonValue& tree = document.tree;
  const JsonValue null;
  TokenizerSpec spec;
  if (tree.find("model") == nullptr) fail(ErrorKind::kInput, "tokenizer.json has no \"model\"");
  read_model(section_of(tree, "model", null), spec.bpe);
  spec.bpe.vocab = std::move(document.vocab);
  spec.bpe.merges = std::move(document.merges);
  if (spec.bpe.vocab.size() == 0) fail(ErrorKind::kInput, "tokenizer.json: /model/vocab is empty");
  read_added_tokens(section_of(tree, "added_tokens", null), spec);
  read_normalizers(section_of(tree, "normalizer", null), spec.normalizers);
  read_pre_tokenizers(section_of(tree, "pre_tokenizer", null), spec.pre_tokenizers);
  const View decoder = section_of(tree, "decoder", null);
  spec.has_decoder = !decoder.is_null();
  read_decoders(decoder, spec.decoders);
  read_post_processor(section_of(tree, "post_processor", null), spec);
  return spec;
}

}  // namespace
}  // namespace tokenizer_json

TokenizerSpec parse_tokenizer(std::string_view tokenizer_json_text, std::string_view config_json) {
  using namespace tokenizer_json;
  TokenizerSpec spec = read_tokenizer(tokenizer_json_text);
  if (!config_json.empty()) {
    const Document config = read_document(config_json, "tokenizer_config.json");
    apply_config(View(config.tree, "tokenizer_config.json: "), spec);
  }
  check_ids(spec);
  return spec;
}

}  // namespace colibri
