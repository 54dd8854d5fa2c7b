#include "coordinator/chat_prompts.h"

#include <utility>

namespace colibri {
namespace {

constexpr char kWhiteSpace[] = " \t\n\v\f\r";

std::string without_leading(const std::string& text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  return begin == text.npos ? "" : text.substr(begin);
}

std::string without_trailing(const std::string& text) {
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

}  // namespace

std::optional<std::string> cut_after_content(const std::string& text, const std::string& content) {
  const std::string begun = without_leading(content), bare = without_trailing(begun);
  const size_t at = text.rfind(bare);
  if (at == text.npos) return std::nullopt;
  const bool keeps_end = text.compare(at, begun.size(), begun) == 0;
  return text.substr(0, at + (keeps_end ? begun : bare).size());
}

ChatPrompts::ChatPrompts(const Tokenizer& tokenizer, std::string model)
    : tokenizer_(tokenizer), model_(std::move(model)) {
  if (!tokenizer.chat_template().empty()) template_.emplace(tokenizer.chat_template());
  if (!tokenizer.tool_chat_template().empty()) {
    tool_template_.emplace(tokenizer.tool_chat_template());
  }
}

std::vector<int32_t> ChatPrompts::ids_of(const ApiRequest& asked) const {
  const auto& chosen = tool_template_ && !asked.tools.empty() ? tool_template_ : template_;
  if (!chosen) {
    throw ApiError(400, "messages",
                   "the model '" + model_ + "' has no chat template; use /v1/completions");
  }
  std::string text = chosen->render({.messages_json = asked.messages,
                                     .tools_json = asked.tools,
                                     .documents_json = {},
                                     .kwargs_json = asked.template_kwargs,
                                     .add_generation_prompt = asked.add_generation_prompt,
                                     .special_tokens = chat_special_tokens(tokenizer_),
                                     .now = {}});
  if (asked.continued) {
    auto cut = cut_after_content(text, *asked.continued);
    if (!cut) {
      throw ApiError(400, "continue_final_message",
                     "the last message's content is not in the text that the template makes of it");
    }
    text = *std::move(cut);
  }
  return tokenizer_.encode(text, false);  // the template writes the special tokens
}

}  // namespace colibri
