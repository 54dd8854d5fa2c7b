// What tokenizer_config.json changes. The rules are those of transformers' fast tokenizer classes
// (tokenization_utils_fast.py and the class of each family, version 4).
#include <algorithm>

#include "model/tokenizer_json.h"

namespace colibri::tokenizer_json {
namespace {

constexpr size_t kMaxAddedTokens = 20'000;  // looked through one by one below

AddedTokenSpec* find_token(TokenizerSpec& spec, std::string_view content) {
  for (AddedTokenSpec& token : spec.added_tokens) {
    if (token.content == content) return &token;
  }
  return nullptr;
}

// Adds a token at its vocabulary id, at `wanted_id`, or behind all others.
AddedTokenSpec& add_token(const View& at, const std::string& content, int32_t wanted_id,
                          TokenizerSpec& spec) {
  AddedTokenSpec token;
  token.content = content;
  if (content.empty()) at.refuse("an empty special token");
  token.id = spec.bpe.vocab.id_of(content);
  if (token.id == kNoToken) {
    token.id = spec.bpe.vocab.num_ids();
    bool is_taken = wanted_id != kNoToken && spec.bpe.vocab.has(wanted_id);
    for (const AddedTokenSpec& other : spec.added_tokens) {
      token.id = std::max(token.id, other.id + 1);
      is_taken = is_taken || other.id == wanted_id;
    }
    if (is_taken) {
      fail(ErrorKind::kInput, at.where(), ": token \"", content, "\" wants id ", wanted_id,
           ", which tokenizer.json gives to another");
    }
    if (wanted_id != kNoToken) token.id = wanted_id;
  }
  spec.added_tokens.push_back(std::move(token));
  return spec.added_tokens.back();
}

void set_flags(const View& at, AddedTokenSpec& token) {
  token.special = at.boolean("special", token.special);
  token.single_word = at.boolean("single_word", token.single_word);
  token.lstrip = at.boolean("lstrip", token.lstrip);
  token.rstrip = at.boolean("rstrip", token.rstrip);
  token.normalized = at.boolean("normalized", token.normalized);
}

int32_t id_from_name(const View& at, const std::string& name) {
  int64_t id = 0;
  const bool is_number =
      !name.empty() && name.size() <= 9 &&
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) id = std::stoll(name);
  if (!is_number || id >= kMaxTokens) {
    fail(ErrorKind::kInput, at.where(), ": \"", name, "\" is no id in [0, ", kMaxTokens, ")");
  }
  return static_cast<int32_t>(id);
}

void apply_added_tokens_decoder(const View& config, TokenizerSpec& spec) {
  if (!config.has("added_tokens_decoder")) return;
  const View section = config.member("added_tokens_decoder");
  const auto members = section.members();
  if (members.size() > kMaxAddedTokens) section.refuse("more than 20000 added tokens");
  for (const auto& [name, at] : members) {
    const int32_t id = id_from_name(at, name);
    const std::string content = at.text("content");
    AddedTokenSpec* token = find_token(spec, content);
    if (token == nullptr) token = &add_token(at, content, id, spec);
    if (token->id != id) {
      fail(ErrorKind::kInput, at.where(), ": token \"", content, "\" has id ", id,
           ", but tokenizer.json gives it ", token->id);
    }
    set_flags(at, *token);
  }
}

// bos_token and its kin are a string or an object with content; a token that is not yet added is
// added as special.
std::optional<int32_t> apply_named_token(const View& at, TokenizerSpec& spec) {
  const std::string content = at.is_object() ? at.text("content") : at.text();
  if (AddedTokenSpec* known = find_token(spec, content)) return known->id;
  AddedTokenSpec& token = add_token(at, content, kNoToken, spec);
  if (at.is_object()) set_flags(at, token);
  token.special = true;
  return token.id;
}

std::optional<int32_t> named_token(const View& config, const char* name, TokenizerSpec& spec) {
  if (!config.has(name)) return std::nullopt;
  return apply_named_token(config.member(name), spec);
}

bool is_one_of(std::string name, std::initializer_list<std::string_view> names) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Llama and GPT-NeoX classes always rebuild the post-processor; others where the file says so.
void apply_bos_eos(const View& config, const std::string& class_name, TokenizerSpec& spec) {
  const bool is_llama = is_one_of(class_name, {"LlamaTokenizer", "CodeLlamaTokenizer"});
  const bool rebuilds = is_llama || is_one_of(class_name, {"GPTNeoXTokenizer"}) ||
                        config.has("add_bos_token") || config.has("add_eos_token");
  if (!rebuilds) return;
  const bool wants_bos = config.boolean("add_bos_token", is_llama);
  const bool wants_eos = config.boolean("add_eos_token", false);
  std::optional<int32_t> bos = spec.bos_id, eos = spec.eos_id;
  if (is_llama && !bos) bos = spec.bpe.vocab.id_of("<s>");
  if (is_llama && !eos) eos = spec.bpe.vocab.id_of("</s>");
  spec.prefix_ids.clear();
  spec.suffix_ids.clear();
  if (wants_bos && bos && *bos != kNoToken) spec.prefix_ids.push_back(*bos);
  if (wants_eos && eos && *eos != kNoToken) spec.suffix_ids.push_back(*eos);
}

void apply_prefix_space(const View& config, const std::string& class_name, TokenizerSpec& spec) {
  if (is_one_of(class_name, {"LlamaTokenizer", "CodeLlamaTokenizer"})) {
    if (!config.boolean("add_prefix_space", true)) {
      config.member("add_prefix_space").refuse("add_prefix_space false for this class");
    }
    return;
  }
  const bool is_gpt2 = is_one_of(class_name, {"GPT2Tokenizer", "GPTNeoXTokenizer"});
  if (is_gpt2 && spec.pre_tokenizers.size() == 1 &&
      spec.pre_tokenizers[0].kind == PreTokenizerKind::kByteLevel) {
    spec.pre_tokenizers[0].add_prefix_space = config.boolean("add_prefix_space", false);
  }
}

// A template, which is the "default" one, or a list of named ones.
std::string read_chat_template(const View& config, std::string_view name) {
  if (!config.has("chat_template")) return {};
  const View at = config.member("chat_template");
  if (at.is_string()) return name == "default" ? at.text() : std::string();
  for (const View& item : at.items()) {
    if (item.text("name") == name) return item.text("template");
  }
  return {};
}

}  // namespace

void apply_config(const View& config, TokenizerSpec& spec) {
  if (config.boolean("split_special_tokens", false)) {
    config.member("split_special_tokens").refuse("split_special_tokens true");
  }
  apply_added_tokens_decoder(config, spec);
  spec.bos_id = named_token(config, "bos_token", spec);
  spec.eos_id = named_token(config, "eos_token", spec);
  for (const char* name : {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    named_token(config, name, spec);
  }
  if (config.has("additional_special_tokens")) {
    const View section = config.member("additional_special_tokens");
    const std::vector<View> items = section.items();
    if (items.size() > kMaxAddedTokens) section.refuse("more than 20000 special tokens");
    for (const View& at : items) {
      apply_named_token(at, spec);
    }
  }
  const std::string class_name =
      config.has("tokenizer_class") ? config.text("tokenizer_class") : "";
  apply_bos_eos(config, class_name, spec);
  apply_prefix_space(config, class_name, spec);
  spec.chat_template = read_chat_template(config, "default");
  spec.tool_chat_template = read_chat_template(config, "tool_use");
}

}  // namespace colibri::tokenizer_json
