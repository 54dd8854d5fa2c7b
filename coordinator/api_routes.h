// Which endpoint a request means, and the answers that need no engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/api_request.h"
#include "coordinator/api_response.h"
#include "coordinator/expert_ranks.h"
#include "coordinator/http_server.h"
#include "model/tokenizer.h"

namespace colibri {

enum class ApiRoute : uint8_t {
  kPage,
  kIcon,
  kHealth,
  kVersion,
  kModels,
  kMetrics,
  kState,
  kTokenize,
  kDetokenize,
  kCompletions,
  kChat,
  kScore,
  kPlacement,
  kRebalance,
  kStartProfile,
  kStopProfile
};

// Errors: ApiError with 404, 405 (another method), or 401 where `api_key` is wanted and not given;
// /health needs none, and the page neither, which holds nothing.
ApiRoute find_route(const HttpRequest& request, const std::string& api_key);

// The request's method and path as far as they are this server's, else "none": few, whatever
// clients send.
struct EndpointName {
  std::string method, path;
};
EndpointName endpoint_name(const HttpRequest& request);

// Of an error that is no ApiError: whose fault it is.
int status_of(ErrorKind kind);
void send_json(HttpReply& reply, std::string body);
void send_error(HttpReply& reply, int status, const std::string& param, const std::string& message);

std::string version_body(const std::string& version);
// {"status":"ok","degraded":...}, and who is lost.
std::string health_body(const std::vector<int>& lost_ranks);
// {"moved_experts", "read_bytes", "seconds"}.
std::string rebalance_body(const RebalanceResult& result);
std::string models_body(const std::string& model, int64_t max_context);
// {"prompt": text, "add_special_tokens": true} -> {"count", "max_model_len", "tokens"}.
std::string tokenize_body(std::string_view body, const Tokenizer& tokenizer, int64_t max_context);
// {"tokens": [...]} -> {"prompt"}.
std::string detokenize_body(std::string_view body, const Tokenizer& tokenizer);

// A new random id for one of the endpoints that run the model, and the time.
ApiIdentity new_identity(const std::string& model, ApiRoute route);
// Ids as they are; a text is encoded, special tokens included.
std::vector<int32_t> prompt_ids_of(const ApiPrompt& prompt, const Tokenizer& tokenizer);
struct PromptBounds {
  std::string field;  // that the prompt came from
  int64_t vocab_size = 0, max_context = 0;
};
// Errors: ApiError for an empty prompt, an id outside [0, vocab_size), and where there is no room
// for a token after them.
void check_prompt_ids(const std::vector<int32_t>& ids, const PromptBounds& bounds);
// Errors: ApiError for another model, and naming a field that does not fit the model or another.
void check_request(const ApiRequest& request, const std::string& model, int64_t vocab_size);

}  // namespace colibri
