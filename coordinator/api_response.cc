#include "coordinator/api_response.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "coordinator/api_request.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string event(const Json& value) { return "data: " + dumped(value) + "\n\n"; }

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

Json logprob_of(const std::optional<double>& logprob) {
  return logprob ? Json(*logprob) : Json(nullptr);
}

Json chat_token(const std::string& bytes, const std::optional<double>& logprob) {
  return {{"token", bytes}, {"logprob", logprob_of(logprob)}, {"bytes", bytes_of(bytes)}};
}

Json chat_logprobs(const std::vector<ApiToken>& tokens) {
  Json content = Json::array();
  for (const ApiToken& token : tokens) {
    Json one = chat_token(token.bytes, token.logprob);
    one["top_logprobs"] = Json::array();
    for (const auto& [bytes, logprob] : token.top) {
      one["top_logprobs"].push_back(chat_token(bytes, logprob));
    }
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

// Part of a character is spelt, so that two of them never look alike.
std::string completion_token(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) {
    char spelt[5];
    std::snprintf(spelt, sizeof spelt, "\\x%02x", static_cast<unsigned char>(byte));
    text += spelt;
  }
  return text;
}

// The chosen token is among them, whether or not it is one of the most likely.
Json completion_top(const ApiToken& token) {
  if (!token.logprob) return nullptr;
  Json top = Json::object();
  for (const auto& [bytes, logprob] : token.top) top.emplace(completion_token(bytes), logprob);
  top.emplace(completion_token(token.bytes), *token.logprob);
  return top;
}

Json completion_logprobs(const std::vector<ApiToken>& tokens) {
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const ApiToken& token : tokens) {
    out["tokens"].push_back(completion_token(token.bytes));
    out["token_logprobs"].push_back(logprob_of(token.logprob));
    out["top_logprobs"].push_back(completion_top(token));
    out["text_offset"].push_back(token.offset);
  }
  return out;
}

Json logprobs_of(const ApiIdentity& who, const ApiChoice& choice) {
  if (!choice.tokens) return nullptr;
  return who.is_chat ? chat_logprobs(*choice.tokens) : completion_logprobs(*choice.tokens);
}

Json reason_of(FinishReason reason) {
  if (reason == FinishReason::kNone) return nullptr;
  return api_finish_reason(reason);
}

Json usage_of(const ApiUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json envelope(const ApiIdentity& who, bool is_event) {
  const char* object = !who.is_chat ? "text_completion"
                       : is_event   ? "chat.completion.chunk"
                                    : "chat.completion";
  return {{"id", who.id}, {"object", object}, {"created", who.created}, {"model", who.model}};
}

std::string chat_event(const ApiIdentity& who, int index, Json delta, Json logprobs, Json reason) {
  Json chunk = envelope(who, true);
  chunk["choices"] = Json::array({{{"index", index},
                                   {"delta", std::move(delta)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", std::move(reason)}}});
  return event(chunk);
}

Json completion_choice(const ApiIdentity& who, const ApiChoice& choice) {
  return {{"index", choice.index},
          {"text", choice.text},
          {"logprobs", logprobs_of(who, choice)},
          {"finish_reason", reason_of(choice.reason)}};
}

Json whole_choice(const ApiIdentity& who, const ApiChoice& choice) {
  if (!who.is_chat) return completion_choice(who, choice);
  return {{"index", choice.index},
          {"message", {{"role", "assistant"}, {"content", choice.text}}},
          {"logprobs", logprobs_of(who, choice)},
          {"finish_reason", reason_of(choice.reason)}};
}

}  // namespace

const char* api_finish_reason(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

std::string api_answer(const ApiIdentity& who, const std::vector<ApiChoice>& choices,
                       const ApiUsage& usage) {
  Json answer = envelope(who, false);
  answer["choices"] = Json::array();
  for (const ApiChoice& choice : choices) answer["choices"].push_back(whole_choice(who, choice));
  answer["usage"] = usage_of(usage);
  return dumped(answer);
}

std::string api_first_event(const ApiIdentity& who, int index) {
  if (!who.is_chat) return "";
  return chat_event(who, index, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
}

std::string api_piece_event(const ApiIdentity& who, const ApiChoice& piece) {
  if (who.is_chat) {
    return chat_event(who, piece.index, {{"content", piece.text}}, logprobs_of(who, piece),
                      nullptr);
  }
  Json chunk = envelope(who, true);
  chunk["choices"] = Json::array({completion_choice(who, piece)});
  return event(chunk);
}

std::string api_reason_event(const ApiIdentity& who, int index, FinishReason reason) {
  if (who.is_chat) return chat_event(who, index, Json::object(), nullptr, reason_of(reason));
  return api_piece_event(who, {.index = index, .text = "", .reason = reason});
}

std::string api_usage_event(const ApiIdentity& who, const ApiUsage& usage) {
  Json chunk = envelope(who, true);
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_of(usage);
  return event(chunk);
}

std::string api_error_event(int status, const std::string& message) {
  return "data: " + api_error_body(status, "", message) + "\n\n";
}

}  // namespace colibri
