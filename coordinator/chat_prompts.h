// From a conversation as a client sends it to the token ids that the model reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api_request.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"

namespace colibri {

// `text` up to the end of the last place where `content` stands, as transformers'
// continue_final_message cuts it: white space around the content counts only where the template
// keeps it. Nothing when it does not stand there.
std::optional<std::string> cut_after_content(const std::string& text, const std::string& content);

// Immutable and usable from several threads.
class ChatPrompts {
 public:
  // `tokenizer` outlives it. Errors: those of its chat templates.
  ChatPrompts(const Tokenizer& tokenizer, std::string model);

  // Whether a conversation without tools can be read.
  bool has_template() const { return template_.has_value(); }
  // By the model's template, or the one for tools where it has one and tools are given. Errors:
  // ApiError for a model without one, and where the message to be continued is not in its text;
  // kInput for what the template raises.
  std::vector<int32_t> ids_of(const ApiRequest& asked) const;

 private:
  const Tokenizer& tokenizer_;
  std::string model_;
  std::optional<ChatTemplate> template_, tool_template_;
};

}  // namespace colibri
