// What a client asks for, read from the JSON bodies of OpenAI's API. Pure: no model, no sockets.
// A field that is not known or not supported is an error that names it; so is a value out of range.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/logit_rules.h"
#include "coordinator/sampler.h"

namespace colibri {

// As a client gets it: {"error": {"message", "type", "param", "code"}} with this status.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, std::string param, const std::string& message)
      : std::runtime_error(message), status_(status), param_(std::move(param)) {}
  int status() const { return status_; }
  const std::string& param() const { return param_; }  // "" for none

 private:
  int status_;
  std::string param_;
};

// The body of an error of that status.
std::string api_error_body(int status, const std::string& param, const std::string& message);

// Text, or token ids.
using ApiPrompt = std::variant<std::string, std::vector<int32_t>>;

// Fields left out have no value: the model's defaults hold (generation_config.json).
struct ApiSampling {
  std::optional<double> temperature = {};  // [0, 2]; 0: greedy
  std::optional<double> top_p = {};        // (0, 1]
  std::optional<int64_t> top_k = {};       // 0 and -1: off
  std::optional<double> min_p = {};        // [0, 1)
  std::optional<uint64_t> seed = {};
  // Penalties [-2, 2], repetition (0, 2], biases [-100, 100].
  LogitRuleParams rules = {};
};

struct ApiRequest {
  std::string model;  // "" for whichever is there
  // Of /v1/completions.
  std::vector<ApiPrompt> prompts;
  bool echo = false;
  // Of /v1/chat/completions: JSON for the chat template, keys in the order in which they came; the
  // content of a message that came in parts is one text, its lines the parts.
  std::string messages, tools, template_kwargs;  // "" for none
  bool add_generation_prompt = true;
  // The last message's content, where the text is to end with it (continue_final_message).
  std::optional<std::string> continued = {};
  // Of /v1/score, beside one prompt or a conversation: a closed set of what may follow it.
  std::vector<ApiPrompt> candidates = {};

  std::optional<int64_t> max_tokens;
  int n = 1;                            // choices for each prompt
  std::vector<std::string> stop;        // at most 16
  std::vector<int32_t> stop_token_ids;  // likewise
  bool ignore_eos = false;
  ApiSampling sampling;
  std::optional<int> top_logprobs;  // that many for each token, and the token's own
  bool stream = false, include_usage = false;
};

// Errors: ApiError with 400.
ApiRequest parse_completion_request(std::string_view body);
ApiRequest parse_chat_request(std::string_view body);
ApiRequest parse_score_request(std::string_view body);

struct ApiTokenize {
  std::string prompt;
  bool add_special_tokens = true;
};
// Errors: ApiError with 400.
ApiTokenize parse_tokenize_request(std::string_view body);
// The ids of {"tokens": [...]}. Errors: likewise.
std::vector<int32_t> parse_detokenize_request(std::string_view body);

// What the sampler is told, with `defaults` where the client says nothing. Errors: ApiError.
SamplingParams sampling_of(const ApiSampling& asked, const SamplingParams& defaults);

}  // namespace colibri
