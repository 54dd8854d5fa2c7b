#include "launch/score.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "launch/model_session.h"
#include "launch/process_clock.h"
#include "launch/rank_signals.h"
#include "launch/score_requests.h"
#include "launch/scoring.h"
#include "launch/session_setup.h"
#include "launch/standard_out.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rank 0's side of one run of the verb.
class Scoring {
 public:
  Scoring(const ModelSession& session, Scorer& scorer) : session_(session), scorer_(scorer) {}

  int run(const std::vector<ScoreRequest>& requests);

 private:
  void answer(const ScoreRequest& request);
  void print_summary(size_t num_requests, double load_s) const;

  const ModelSession& session_;
  Scorer& scorer_;
  size_t num_documents_ = 0, num_continuations_ = 0;
  size_t document_tokens_ = 0, scored_tokens_ = 0;
  double read_s_ = 0, score_s_ = 0;
};

int Scoring::run(const std::vector<ScoreRequest>& requests) {
  const double load_s = seconds_since_process_start();
  for (const ScoreRequest& request : requests) {
    if (drain_requested()) break;
    answer(request);
  }
  print_summary(requests.size(), load_s);
  return 0;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

nlohmann::ordered_json line_of(const ScoreRequest& request, const std::vector<double>& logprobs) {
  const ClosedSet set = closed_set(logprobs);
  nlohmann::ordered_json continuations = nlohmann::ordered_json::array();
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const ScoredText& scored = request.continuations[i];
    continuations.push_back(
        {{"text", scored.text},
         {"ids", scored.ids},
         {"logprob", logprobs[i]},
         {"logprob_per_token", logprobs[i] / static_cast<double>(scored.ids.size())},
         {"probability", set.probabilities[i]}});
  }
  return {{"document_tokens", request.document.size()},
          {"continuations", continuations},
          {"best", set.best},
          {"normalised_entropy", set.normalised_entropy}};
}

void Scoring::answer(const ScoreRequest& request) {
  auto start = Clock::now();
  scorer_.read_document(request.document);
  read_s_ += seconds_since(start);
  start = Clock::now();
  std::vector<double> logprobs;
  for (const ScoredText& continuation : request.continuations) {
    logprobs.push_back(sum_of(scorer_.score(continuation.ids)));
    scored_tokens_ += continuation.ids.size();
  }
  score_s_ += seconds_since(start);
  ++num_documents_;
  num_continuations_ += request.continuations.size();
  document_tokens_ += request.document.size();
  auto object = line_of(request, logprobs);
  object["ranks"] = session_.placement().num_ranks();
  write_out(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Scoring::print_summary(size_t num_requests, double load_s) const {
  const auto rate = [](size_t tokens, double seconds) {
    return tokens > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  std::fprintf(
      stderr,
      "%zu document tokens read at %.0f tokens/s, %zu continuations scored at %.0f tokens/s (%s)\n",
      document_tokens_, rate(document_tokens_, read_s_), num_continuations_,
      rate(scored_tokens_, score_s_), session_.ops().name().c_str());
  std::fprintf(stderr, "ready after %.0f ms\n", load_s * 1000);
  if (num_documents_ < num_requests) {
    std::fprintf(stderr, "colibri: warning: stopped after %zu of %zu documents\n", num_documents_,
                 num_requests);
  }
  for (const std::string& warning : session_.load_stats().collapsed_layers(32)) {
    std::fprintf(stderr, "colibri: warning: %s\n", warning.c_str());
  }
}

}  // namespace

int score(const RunConfig& config, RankContext& context) {
  std::vector<ScoreRequest> requests;
  SessionNeeds needs{.scores_prompts = true};
  const auto prepare = [&](const Checkpoint& checkpoint) {
    requests = read_score_requests(config.score, checkpoint,
                                   context_limit(config.common, checkpoint.config()));
    for (const ScoreRequest& request : requests) {
      needs.max_context = std::max(needs.max_context, request.longest());
    }
    return needs;
  };
  return run_session(
      config.common, context, prepare, {}, [&](ModelSession& session, Serving& serving) {
        Scorer scorer(
            serving.forward, serving.cache,
            scorer_options(config.common, session.checkpoint().config(), needs.max_context));
        return Scoring(session, scorer).run(requests);
      });
}

}  // namespace colibri
