#include "coordinator/api_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "coordinator/api_fields.h"

namespace colibri {
namespace {

using json = ApiJson;

constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr size_t kMaxStops = 16, kMaxPrompts = 256, kMaxBiases = 1024;
constexpr int kMaxChoices = 128, kMaxTopLogprobs = 20, kMaxCompletionLogprobs = 5;

// A text, several, token ids, or several lists of them.
std::vector<ApiPrompt> prompts_of(ApiFields& fields) {
  const json* value = fields.find("prompt");
  if (value == nullptr) throw ApiError(400, "prompt", "'prompt' is missing");
  std::vector<ApiPrompt> prompts;
  if (value->is_string()) {
    prompts.emplace_back(value->get<std::string>());
  } else if (is_list_of(*value, &json::is_string)) {
    for (const json& one : *value) prompts.emplace_back(one.get<std::string>());
  } else if (is_list_of(*value, &json::is_number)) {
    prompts.emplace_back(ids_of_field("prompt", *value));
  } else if (is_list_of(*value, &json::is_array)) {
    for (const json& one : *value) prompts.emplace_back(ids_of_field("prompt", one));
  } else {
    wrong_field("prompt", *value, "a string, strings, token ids, or lists of token ids");
  }
  if (prompts.size() > kMaxPrompts) {
    throw ApiError(400, "prompt",
                   "'prompt' has " + std::to_string(prompts.size()) + " prompts, want at most " +
                       std::to_string(kMaxPrompts));
  }
  return prompts;
}

ApiPrompt text_or_ids(const std::string& key, const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!is_list_of(value, &json::is_number)) wrong_field(key, value, "a text or token ids");
  return ids_of_field(key, value);
}

std::vector<std::string> stops_of(ApiFields& fields) {
  const json* value = fields.find("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
  } else if (value->is_array() && value->size() <= kMaxStops) {
    for (const json& one : *value) {
      if (!one.is_string()) wrong_field("stop", *value, "a string or strings");
      stops.push_back(one.get<std::string>());
    }
  } else {
    wrong_field("stop", *value, "a string, or at most " + std::to_string(kMaxStops));
  }
  std::erase(stops, "");
  return stops;
}

std::map<int32_t, float> biases_of(ApiFields& fields) {
  const json* value = fields.find("logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object() || value->size() > kMaxBiases) {
    wrong_field("logit_bias", *value,
                "an object of at most " + std::to_string(kMaxBiases) + " token ids with numbers");
  }
  std::map<int32_t, float> biases;
  for (const auto& [key, bias] : value->items()) {
    const bool is_id =
        !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id || !bias.is_number() || bias.get<double>() < -100 || bias.get<double>() > 100) {
      wrong_field("logit_bias", json{{key, bias}}, "a token id with a number from -100 to 100");
    }
    biases[std::stoi(key)] = bias.get<float>();
  }
  return biases;
}

ApiSampling read_sampling(ApiFields& fields) {
  ApiSampling s;
  s.temperature = fields.number("temperature", 0, 2);
  s.top_p = fields.number("top_p", 0, 1);
  if (s.top_p && *s.top_p == 0) wrong_field("top_p", 0, "a number above 0, at most 1");
  s.top_k = fields.integer("top_k", -1, INT32_MAX);
  s.min_p = fields.number("min_p", 0, 1);
  if (s.min_p && *s.min_p == 1) wrong_field("min_p", 1, "a number from 0, below 1");
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    s.seed = static_cast<uint64_t>(*seed);
  }
  s.rules.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  s.rules.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  s.rules.repetition_penalty = fields.number("repetition_penalty", 0, 2).value_or(1);
  if (s.rules.repetition_penalty == 0)
    wrong_field("repetition_penalty", 0, "a number above 0, at most 2");
  s.rules.biases = biases_of(fields);
  s.rules.min_tokens = fields.integer("min_tokens", 0, kMaxTokens).value_or(0);
  return s;
}

void read_streaming(ApiFields& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream", false);
  const json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!request.stream) wrong_field("stream_options", *options, "'stream': true beside it");
  if (!options->is_object()) wrong_field("stream_options", *options, "an object");
  ApiFields inner(*options);
  request.include_usage = inner.boolean("include_usage", false);
  inner.refuse_others();
}

// What both endpoints know.
void read_common(ApiFields& fields, ApiRequest& request) {
  request.model = fields.text("model");
  request.n = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  request.stop = stops_of(fields);
  if (const json* ids = fields.find("stop_token_ids")) {
    if (!ids->is_array() || ids->size() > kMaxStops) {
      wrong_field("stop_token_ids", *ids, "at most " + std::to_string(kMaxStops) + " token ids");
    }
    request.stop_token_ids = ids_of_field("stop_token_ids", *ids);
  }
  request.ignore_eos = fields.boolean("ignore_eos", false);
  request.sampling = read_sampling(fields);
  read_streaming(fields, request);
  fields.ignore({"user", "metadata", "store"});
}

// "" or the JSON of a field that the chat template gets.
std::string json_text(ApiFields& fields, const std::string& key,
                      bool (json::*is_kind)() const noexcept, const std::string& wanted) {
  const json* value = fields.find(key);
  if (value == nullptr) return "";
  if (!(value->*is_kind)()) wrong_field(key, *value, wanted);
  return value->dump(-1, ' ', false, json::error_handler_t::replace);
}

void check_messages(const json& messages) {
  if (!messages.is_array() || messages.empty()) {
    wrong_field("messages", messages, "a list of at least one message");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (!message.is_object()) wrong_field(where, message, "an object with 'role' and 'content'");
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) {
      wrong_field(where, message, "a string 'role'");
    }
  }
}

// Text in parts is one text to a template.
std::string joined_parts(const std::string& where, const json& parts) {
  std::string text;
  for (const json& part : parts) {
    const auto is_text = [&](const char* key) {
      return part.is_object() && part.contains(key) && part[key].is_string();
    };
    if (!is_text("type") || part["type"] != "text" || !is_text("text")) {
      wrong_field(where, part, "parts {\"type\": \"text\", \"text\": ...}");
    }
    text += (&part == &parts[0] ? "" : "\n") + part["text"].get<std::string>();
  }
  return text;
}

std::string messages_json(json messages) {
  check_messages(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || content->is_string() || content->is_null()) continue;
    const std::string where = "messages[" + std::to_string(i) + "].content";
    if (!content->is_array()) wrong_field(where, *content, "a string, or a list of parts");
    *content = joined_parts(where, *content);
  }
  return messages.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A message that is to be continued ends the text, so nothing of the next may begin.
void read_conversation(ApiFields& fields, const json& messages, ApiRequest& request) {
  request.messages = messages_json(messages);
  request.tools = json_text(fields, "tools", &json::is_array, "a list");
  request.template_kwargs =
      json_text(fields, "chat_template_kwargs", &json::is_object, "an object");
  const bool continues = fields.boolean("continue_final_message", false);
  request.add_generation_prompt = fields.boolean("add_generation_prompt", !continues);
  if (!continues) return;
  if (request.add_generation_prompt) {
    wrong_field("add_generation_prompt", true, "false beside 'continue_final_message'");
  }
  const auto content = messages.back().find("content");
  request.continued = content == messages.back().end() || content->is_null() ? ""
                      : content->is_string() ? content->get<std::string>()
                                             : joined_parts("messages", *content);
  if (request.continued->find_first_not_of(" \t\r\n") == std::string::npos) {
    wrong_field("continue_final_message", true, "a last message with text, to be continued");
  }
}

// "auto" and "none" are what a model without a tool parser does.
void refuse_what_chat_cannot(ApiFields& fields) {
  if (const json* format = fields.find("response_format")) {
    const bool is_text =
        format->is_object() && format->contains("type") && (*format)["type"] == "text";
    if (!is_text)
      wrong_field("response_format", *format, "{\"type\": \"text\"}: others are not supported");
  }
  if (const json* choice = fields.find("tool_choice")) {
    if (*choice != "none")
      wrong_field("tool_choice", *choice, "\"none\": calls are not read from the text");
  }
  fields.ignore({"parallel_tool_calls"});
}

}  // namespace

std::string api_error_body(int status, const std::string& param, const std::string& message) {
  const char* type = status == 401   ? "authentication_error"
                     : status == 429 ? "rate_limit_error"
                     : status >= 500 ? "server_error"
                                     : "invalid_request_error";
  return json{{"error",
               {{"message", message},
                {"type", type},
                {"param", param.empty() ? json() : json(param)},
                {"code", status}}}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

ApiRequest parse_completion_request(std::string_view body) {
  const json object = parsed_body(body);
  ApiFields fields(object);
  ApiRequest request;
  request.prompts = prompts_of(fields);
  request.echo = fields.boolean("echo", false);
  request.max_tokens = fields.integer("max_tokens", 0, kMaxTokens);
  read_common(fields, request);
  if (const auto top = fields.integer("logprobs", 0, kMaxCompletionLogprobs)) {
    request.top_logprobs = static_cast<int>(*top);
  }
  if (const auto best = fields.integer("best_of", 1, kMaxChoices); best && *best != request.n) {
    throw ApiError(400, "best_of", "'best_of' is " + std::to_string(*best) + ", want it as 'n'");
  }
  if (!fields.text("suffix").empty()) {
    throw ApiError(400, "suffix", "'suffix' is not supported here");
  }
  fields.refuse_others();
  return request;
}

ApiRequest parse_chat_request(std::string_view body) {
  const json object = parsed_body(body);
  ApiFields fields(object);
  ApiRequest request;
  const json* messages = fields.find("messages");
  if (messages == nullptr) throw ApiError(400, "messages", "'messages' is missing");
  read_conversation(fields, *messages, request);
  const auto older = fields.integer("max_tokens", 1, kMaxTokens);
  const auto newer = fields.integer("max_completion_tokens", 1, kMaxTokens);
  request.max_tokens = newer ? newer : older;
  read_common(fields, request);
  const bool wants_logprobs = fields.boolean("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && !wants_logprobs) wrong_field("top_logprobs", *top, "'logprobs': true beside it");
  if (wants_logprobs) request.top_logprobs = static_cast<int>(top.value_or(0));
  refuse_what_chat_cannot(fields);
  fields.refuse_others();
  return request;
}

ApiRequest parse_score_request(std::string_view body) {
  const json object = parsed_body(body);
  ApiFields fields(object);
  ApiRequest request;
  request.model = fields.text("model");
  const json* document = fields.find("document");
  const json* messages = fields.find("messages");
  if ((document == nullptr) == (messages == nullptr)) {
    throw ApiError(400, "document", "want either 'document' or 'messages'");
  }
  if (document != nullptr) request.prompts.push_back(text_or_ids("document", *document));
  if (messages != nullptr) read_conversation(fields, *messages, request);
  const json* candidates = fields.find("candidates");
  if (candidates == nullptr) throw ApiError(400, "candidates", "'candidates' is missing");
  if (!candidates->is_array() || candidates->empty() || candidates->size() > kMaxPrompts) {
    wrong_field("candidates", *candidates,
                "a list of one to " + std::to_string(kMaxPrompts) + " texts or lists of token ids");
  }
  for (const json& one : *candidates) {
    request.candidates.push_back(text_or_ids("candidates", one));
  }
  fields.ignore({"user", "metadata", "store"});
  fields.refuse_others();
  return request;
}

ApiTokenize parse_tokenize_request(std::string_view body) {
  const json object = parsed_body(body);
  ApiFields fields(object);
  if (fields.find("prompt") == nullptr) throw ApiError(400, "prompt", "'prompt' is missing");
  ApiTokenize request{fields.text("prompt"), fields.boolean("add_special_tokens", true)};
  fields.ignore({"model"});
  fields.refuse_others();
  return request;
}

std::vector<int32_t> parse_detokenize_request(std::string_view body) {
  const json object = parsed_body(body);
  ApiFields fields(object);
  const json* tokens = fields.find("tokens");
  if (tokens == nullptr) throw ApiError(400, "tokens", "'tokens' is missing");
  if (!tokens->is_array()) wrong_field("tokens", *tokens, "a list of token ids");
  fields.ignore({"model"});
  fields.refuse_others();
  return ids_of_field("tokens", *tokens);
}

SamplingParams sampling_of(const ApiSampling& asked, const SamplingParams& defaults) {
  SamplingParams params = defaults;
  if (asked.temperature) {
    params.greedy = static_cast<float>(*asked.temperature) == 0;
    if (!params.greedy) params.temperature = static_cast<float>(*asked.temperature);
  }
  if (asked.top_p) params.top_p = static_cast<float>(*asked.top_p);
  if (asked.top_k) params.top_k = static_cast<int>(std::max<int64_t>(*asked.top_k, 0));
  if (asked.min_p) params.min_p = static_cast<float>(*asked.min_p);
  if (asked.seed) params.seed = *asked.seed;
  return params;
}

}  // namespace colibri
