// The chat template of a checkpoint: a conversation to the text that the model was trained on.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colibri {

class Tokenizer;

// A conversation and what else a template may ask for. The JSON texts keep their order of keys,
// which `tojson` shows: give them as they came, not through a sorted object. An empty text is what
// is not there.
struct ChatInput {
  // An array of objects: role, content (a string or a list of parts), tool_calls, and whatever the
  // template reads.
  std::string_view messages_json;
  std::string_view tools_json;      // an array; `none` in the template if it is not there
  std::string_view documents_json;  // likewise
  // An object, chat_template_kwargs: its members are variables (enable_thinking); they win over
  // add_generation_prompt and the special tokens, not over messages, tools and documents.
  std::string_view kwargs_json;
  bool add_generation_prompt = true;
  // The texts of bos_token, eos_token, ...; those that the tokenizer has.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::optional<std::tm> now;  // for strftime_now; without it the local time
};

struct ChatMessage {
  std::string role;
  std::string content;
};

// These messages as ChatInput::messages_json. Text that is not UTF-8 gets U+FFFD in its place.
std::string chat_messages_json(std::span<const ChatMessage> messages);

// bos_token and eos_token of a tokenizer, those that it has, as ChatInput::special_tokens.
std::vector<std::pair<std::string, std::string>> chat_special_tokens(const Tokenizer& tokenizer);

struct ChatTemplateLimits {
  int64_t max_steps = 10'000'000;             // nodes evaluated, items, and 64 bytes read
  size_t max_output_bytes = size_t{1} << 24;  // of the text
  size_t max_made_bytes = size_t{1} << 28;    // of all values made on the way
};

// A compiled template. Gives the bytes of transformers' apply_chat_template(tokenize=False) for the
// part of Jinja that docs/chat-templates.md lists. Immutable and usable from several threads.
class ChatTemplate {
 public:
  // Fails with kInput, naming the line, what came and what was wanted, for what is no template;
  // with kUnsupported, naming the tag, filter, test, method or function and what there is, for what
  // is not supported. Cost: O(n).
  explicit ChatTemplate(std::string_view source, const ChatTemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Fails with kInput, naming the line, for what Python would raise, for raise_exception, and
  // beyond the limits; with kInput naming the JSON text for one that is not what is wanted.
  std::string render(const ChatInput& input) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace colibri
