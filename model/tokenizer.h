// Text to token ids and back, by a checkpoint's own tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

class Decoder;

// A byte-pair tokenizer. Immutable after loading and usable from several threads.
//
// encode() gives the ids of transformers' `tokenizer(text)` (fast classes, version 4; truncation
// and padding of tokenizer.json do not apply there either), decode() those of its backend's
// `decode` (clean_up_tokenization_spaces is not applied). Text that is not UTF-8 is taken as
// Python's errors="replace" would give it: U+FFFD for each maximal ill-formed part.
//
// What tokenizer_config.json changes: tokens of added_tokens_decoder and the named special tokens
// are added; add_bos_token and add_eos_token replace the post-processor (for Llama and GPT-NeoX
// classes also by their defaults); add_prefix_space sets a lone ByteLevel of a GPT-2 class.
class Tokenizer {
 public:
  // The text of a file of the model by name; nothing if it is not there.
  using TextOf = std::function<std::optional<std::string>(const std::string& name)>;
  // Reads tokenizer.json and, if it is there, tokenizer_config.json (a chat_template.jinja beside
  // them wins over the template inside). Fails with kInput when tokenizer.json is missing or wrong,
  // with kUnsupported, naming the JSON path, for what is not implemented. `where` names the model.
  static Tokenizer load(const TextOf& text_of, const std::string& where);
  // The same from a directory.
  static Tokenizer load(const std::filesystem::path& model_dir);

  // The same from the files' contents; `tokenizer_config_json` may be empty.
  static Tokenizer from_json(std::string_view tokenizer_json,
                             std::string_view tokenizer_config_json);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Added tokens in the text become their ids. `add_special_tokens` puts begin and end tokens
  // around it as the post-processor says. Fails with kInput for text of 1 GiB or more, and where a
  // split pattern needs more steps than its limit. Cost: O(n log n).
  std::vector<int32_t> encode(std::string_view utf8, bool add_special_tokens = true) const;

  // Ids that are no token are passed over. `skip_special_tokens` leaves out those with
  // is_special().
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // Largest id + 1; there may be ids below it that are no token.
  int32_t vocab_size() const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  // The token as the vocabulary spells it ("Ġthe"); nothing for an id that is no token.
  std::optional<std::string_view> token_text(int32_t id) const;
  // The bytes that it adds to a text, which need not be whole characters (" the"); of a special
  // token its spelling; empty for an id that is no token.
  std::string token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  // The raw template; of several the one named "default"; empty if there is none.
  const std::string& chat_template() const;
  // Of several the one named "tool_use", for conversations with tools; empty if there is none.
  const std::string& tool_chat_template() const;

  const Decoder& decoder() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace colibri
