// Answers of OpenAI's API as JSON: whole, or as the events of a stream. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/request.h"

namespace colibri {

// What all parts of one answer share.
struct ApiIdentity {
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  bool is_chat = true;
};

// A token's bytes, which need not be whole UTF-8, and its natural logarithm of probability; the
// first token of an echoed prompt has none.
struct ApiToken {
  std::string bytes;
  std::optional<double> logprob = 0;
  std::vector<std::pair<std::string, double>> top = {};  // most likely first
  size_t offset = 0;  // in characters of the choice's text; completions show it
};

struct ApiChoice {
  int index = 0;
  std::string text;
  FinishReason reason = FinishReason::kNone;
  std::optional<std::vector<ApiToken>> tokens = {};  // where logprobs were asked for
};

struct ApiUsage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// "stop", "length"; a cancelled answer was cut short like one at its limit.
const char* api_finish_reason(FinishReason reason);

std::string api_answer(const ApiIdentity& who, const std::vector<ApiChoice>& choices,
                       const ApiUsage& usage);

// Events of a stream, each "data: ...\n\n". Of a chat choice first the role, then pieces, then its
// reason, in an event without content; `finish_reason` is null until then. After all choices the
// usage, where it was asked for, and the end.
std::string api_first_event(const ApiIdentity& who, int index);
std::string api_piece_event(const ApiIdentity& who, const ApiChoice& piece);
std::string api_reason_event(const ApiIdentity& who, int index, FinishReason reason);
std::string api_usage_event(const ApiIdentity& who, const ApiUsage& usage);
// After which the stream ends too.
std::string api_error_event(int status, const std::string& message);
inline constexpr char kApiEndEvent[] = "data: [DONE]\n\n";

}  // namespace colibri
