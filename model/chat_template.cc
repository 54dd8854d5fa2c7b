#include "model/chat_template.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/template_interpreter.h"
#include "model/template_json.h"
#include "model/template_parser.h"
#include "model/tokenizer.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

using jinja::Dict;
using jinja::SequenceKind;
using jinja::Value;

// An array or, for an empty text, none.
Value array_of(std::string_view json, const char* name) {
  if (json.empty()) return Value();
  Value value = jinja::parse_value(json, name);
  if (!value.is_none() && !value.sequence()) {
    fail(ErrorKind::kInput, name, ": got a ", jinja::type_name(value), ", want an array");
  }
  return value;
}

Value messages_of(std::string_view json) {
  Value messages = array_of(json, "messages");
  if (!messages.sequence()) fail(ErrorKind::kInput, "messages: got none, want an array");
  for (const Value& message : messages.sequence()->items) {
    if (message.dict()) continue;
    fail(ErrorKind::kInput, "messages: got a ", jinja::type_name(message), " in it, want objects");
  }
  return messages;
}

// Later ones replace earlier ones.
Dict variables_of(const ChatInput& input) {
  Dict variables;
  const auto set = [&variables](std::string name, Value value) {
    variables.set(Value(std::move(name)), std::move(value));
  };
  for (const auto& [name, text] : input.special_tokens) {
    set(name, Value(replace_invalid_utf8(text)));
  }
  set("add_generation_prompt", Value(input.add_generation_prompt));
  if (!input.kwargs_json.empty()) {
    const Value kwargs = jinja::parse_value(input.kwargs_json, "chat_template_kwargs");
    if (!kwargs.dict()) {
      fail(ErrorKind::kInput, "chat_template_kwargs: got a ", jinja::type_name(kwargs),
           ", want an object");
    }
    for (const auto& [name, value] : kwargs.dict()->items()) variables.set(name, value);
  }
  set("messages", messages_of(input.messages_json));
  set("tools", array_of(input.tools_json, "tools"));
  set("documents", array_of(input.documents_json, "documents"));
  return variables;
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm result{};
  localtime_r(&now, &result);
  return result;
}

}  // namespace

std::string chat_messages_json(std::span<const ChatMessage> messages) {
  auto result = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    nlohmann::ordered_json object;
    object["role"] = replace_invalid_utf8(message.role);
    object["content"] = replace_invalid_utf8(message.content);
    result.push_back(std::move(object));
  }
  return result.dump();
}

std::vector<std::pair<std::string, std::string>> chat_special_tokens(const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, std::string>> result;
  const auto add = [&](const char* name, std::optional<int32_t> id) {
    const auto text = id ? tokenizer.token_text(*id) : std::nullopt;
    if (text) result.emplace_back(name, std::string(*text));
  };
  add("bos_token", tokenizer.bos_id());
  add("eos_token", tokenizer.eos_id());
  return result;
}

struct ChatTemplate::Parts {
  jinja::NodePtr root;
  jinja::RenderLimits limits;
};

ChatTemplate::ChatTemplate(std::string_view source, const ChatTemplateLimits& limits)
    : parts_(std::make_unique<const Parts>(
          Parts{jinja::parse_template(source),
                {limits.max_steps, limits.max_output_bytes, limits.max_made_bytes}})) {}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const ChatInput& input) const {
  const Dict variables = variables_of(input);
  jinja::Interpreter interpreter(parts_->limits, input.now.value_or(local_time()));
  return interpreter.run(*parts_->root, variables);
}

}  // namespace colibri
