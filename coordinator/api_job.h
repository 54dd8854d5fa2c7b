// One request of the API that generates, and what has become of it. Internal to api_service*.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/api_choice.h"
#include "coordinator/api_request.h"
#include "coordinator/api_response.h"
#include "coordinator/api_score.h"
#include "coordinator/api_service.h"
#include "coordinator/http_server.h"
#include "coordinator/serving_metrics.h"

namespace colibri {

// One answer of a request: a prompt's, or one of several of the same prompt.
struct ApiService::Choice {
  std::unique_ptr<GrowingChoice> text;
  int engine_number = -1;
  AnswerTimes times;
};

struct ApiService::Job {
  ApiIdentity who;
  ApiRequest asked;
  SamplingParams sampling;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<int32_t> end_ids;
  std::vector<ScoredCandidate> candidates;  // of the one prompt; nothing is generated then
  std::shared_ptr<HttpReply> reply;
  std::vector<Choice> choices;
  size_t num_ended = 0;
  int64_t num_cached_tokens = 0;
  bool is_gone = false;
  bool has_failed = false;  // was answered with an error after it began
  MetricsClock::time_point arrived = MetricsClock::now();

  int64_t num_prompt_tokens() const {
    int64_t count = 0;
    for (const auto& ids : prompts) count += static_cast<int64_t>(ids.size());
    for (const auto& one : candidates) count += static_cast<int64_t>(one.ids.size());
    return count;
  }
  ApiUsage usage() const {
    ApiUsage usage{.prompt_tokens = num_prompt_tokens(), .cached_tokens = num_cached_tokens};
    for (const Choice& choice : choices) usage.completion_tokens += choice.text->num_tokens();
    return usage;
  }
  void write(std::string piece) {
    if (is_gone || piece.empty()) return;
    if (!reply->write(std::move(piece))) is_gone = true;
  }
  void on_piece(const ApiChoice& piece) {
    if (asked.stream) write(api_piece_event(who, piece));
  }
  ChoiceOptions choice_options(size_t index, const Tokenizer& tokenizer) const;
  void end(size_t index, FinishReason reason);
  void finish();
  void fail(int status, const std::string& message);
};

}  // namespace colibri
