#include "coordinator/api_routes.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;

struct Endpoint {
  const char* method;
  const char* path;
  ApiRoute route;
  bool is_open = false;  // wants no key
};
constexpr Endpoint kEndpoints[] = {{"GET", "/", ApiRoute::kPage, true},
                                   {"GET", "/favicon.ico", ApiRoute::kIcon, true},
                                   {"GET", "/health", ApiRoute::kHealth, true},
                                   {"GET", "/version", ApiRoute::kVersion},
                                   {"GET", "/v1/models", ApiRoute::kModels},
                                   {"GET", "/metrics", ApiRoute::kMetrics},
                                   {"GET", "/state", ApiRoute::kState},
                                   {"POST", "/start_profile", ApiRoute::kStartProfile},
                                   {"POST", "/stop_profile", ApiRoute::kStopProfile},
                                   {"POST", "/tokenize", ApiRoute::kTokenize},
                                   {"POST", "/detokenize", ApiRoute::kDetokenize},
                                   {"POST", "/v1/completions", ApiRoute::kCompletions},
                                   {"POST", "/v1/chat/completions", ApiRoute::kChat},
                                   {"POST", "/v1/score", ApiRoute::kScore},
                                   {"GET", "/placement", ApiRoute::kPlacement},
                                   {"POST", "/rebalance", ApiRoute::kRebalance}};

// Takes as long whatever differs.
bool is_same_key(const std::string& given, const std::string& key) {
  unsigned char differs = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size() && !key.empty(); ++i) {
    differs = static_cast<unsigned char>(differs | (given[i] ^ key[i % key.size()]));
  }
  return differs == 0;
}

void check_key(const HttpRequest& request, const std::string& key) {
  const auto given = request.headers.find("authorization");
  const std::string scheme = "Bearer ";
  if (given != request.headers.end() && given->second.rfind(scheme, 0) == 0 &&
      is_same_key(given->second.substr(scheme.size()), key)) {
    return;
  }
  throw ApiError(401, "", "this server wants an API key: Authorization: Bearer KEY");
}

bool is_open_path(const std::string& path) {
  return std::any_of(std::begin(kEndpoints), std::end(kEndpoints), [&](const Endpoint& endpoint) {
    return endpoint.is_open && path == endpoint.path;
  });
}

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string random_hex() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    for (uint32_t bits = random(), j = 0; j < 8; ++j, bits >>= 4) text += kDigits[bits & 15];
  }
  return text;
}

}  // namespace

ApiRoute find_route(const HttpRequest& request, const std::string& api_key) {
  if (!api_key.empty() && !is_open_path(request.path)) check_key(request, api_key);
  const char* wanted = nullptr;
  for (const Endpoint& endpoint : kEndpoints) {
    if (request.path != endpoint.path) continue;
    const bool is_head = request.method == "HEAD" && std::string_view(endpoint.method) == "GET";
    if (request.method == endpoint.method || is_head) return endpoint.route;
    wanted = endpoint.method;
  }
  if (wanted == nullptr) throw ApiError(404, "", "there is no " + request.path + " here");
  throw ApiError(405, "", request.path + " wants " + wanted + ", not " + request.method);
}

EndpointName endpoint_name(const HttpRequest& request) {
  EndpointName name{"none", "none"};
  for (const char* method : {"GET", "HEAD", "POST"}) {
    if (request.method == method) name.method = method;
  }
  for (const Endpoint& endpoint : kEndpoints) {
    if (request.path == endpoint.path) name.path = endpoint.path;
  }
  return name;
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
    case ErrorKind::kUnsupported:
      return 400;
    case ErrorKind::kEnvironment:
    case ErrorKind::kTimeout:
    case ErrorKind::kRankLost:
      return 503;
    case ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

void send_json(HttpReply& reply, std::string body) {
  reply.send(200, {{"Content-Type", "application/json"}}, std::move(body));
}

void send_error(HttpReply& reply, int status, const std::string& param,
                const std::string& message) {
  reply.send(status, {{"Content-Type", "application/json"}},
             api_error_body(status, param, message));
}

std::string version_body(const std::string& version) { return dumped({{"version", version}}); }

std::string health_body(const std::vector<int>& lost_ranks) {
  Json body = {{"status", "ok"}, {"degraded", !lost_ranks.empty()}};
  if (!lost_ranks.empty()) body["lost_ranks"] = lost_ranks;
  return dumped(body);
}

std::string rebalance_body(const RebalanceResult& result) {
  return dumped({{"moved_experts", result.num_moved_slots},
                 {"read_bytes", result.read_bytes},
                 {"seconds", result.seconds}});
}

std::string models_body(const std::string& model, int64_t max_context) {
  const Json one = {{"id", model},
                    {"object", "model"},
                    {"created", now_s()},
                    {"owned_by", "colibri"},
                    {"max_model_len", max_context}};
  return dumped({{"object", "list"}, {"data", Json::array({one})}});
}

std::string tokenize_body(std::string_view body, const Tokenizer& tokenizer, int64_t max_context) {
  const ApiTokenize request = parse_tokenize_request(body);
  const auto ids = tokenizer.encode(request.prompt, request.add_special_tokens);
  return dumped({{"count", ids.size()}, {"max_model_len", max_context}, {"tokens", ids}});
}

std::string detokenize_body(std::string_view body, const Tokenizer& tokenizer) {
  return dumped({{"prompt", tokenizer.decode(parse_detokenize_request(body), false)}});
}

ApiIdentity new_identity(const std::string& model, ApiRoute route) {
  const char* prefix = route == ApiRoute::kChat    ? "chatcmpl-"
                       : route == ApiRoute::kScore ? "score-"
                                                   : "cmpl-";
  return {.id = prefix + random_hex(),
          .created = now_s(),
          .model = model,
          .is_chat = route == ApiRoute::kChat};
}

std::vector<int32_t> prompt_ids_of(const ApiPrompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return tokenizer.encode(*text);
  return std::get<std::vector<int32_t>>(prompt);
}

void check_prompt_ids(const std::vector<int32_t>& ids, const PromptBounds& bounds) {
  const auto refuse = [&](const std::string& what) {
    throw ApiError(400, bounds.field, "'" + bounds.field + "' " + what);
  };
  if (ids.empty()) refuse("is empty, want at least one token");
  for (const int32_t id : ids) {
    if (id >= 0 && id < bounds.vocab_size) continue;
    refuse("has the id " + std::to_string(id) + ", want below " +
           std::to_string(bounds.vocab_size));
  }
  if (static_cast<int64_t>(ids.size()) < bounds.max_context) return;
  refuse("is " + std::to_string(ids.size()) + " tokens, want at most " +
         std::to_string(bounds.max_context - 1));
}

void check_request(const ApiRequest& request, const std::string& model, int64_t vocab_size) {
  const auto refuse = [](const char* field, const std::string& what) {
    throw ApiError(400, field, std::string("'") + field + "' " + what);
  };
  if (!request.model.empty() && request.model != model) {
    throw ApiError(404, "model",
                   "there is no model '" + request.model + "' here, but '" + model + "'");
  }
  if (request.max_tokens == 0 && !request.echo) {
    refuse("max_tokens", "is 0, want above 0, or 'echo' beside it");
  }
  const LogitRuleParams& rules = request.sampling.rules;
  if (request.max_tokens && rules.min_tokens > *request.max_tokens) {
    refuse("min_tokens", "is " + std::to_string(rules.min_tokens) + ", want at most max_tokens, " +
                             std::to_string(*request.max_tokens));
  }
  if (rules.biases.empty() || rules.biases.rbegin()->first < vocab_size) return;
  refuse("logit_bias", "has the id " + std::to_string(rules.biases.rbegin()->first) +
                           ", want below " + std::to_string(vocab_size));
}

}  // namespace colibri
