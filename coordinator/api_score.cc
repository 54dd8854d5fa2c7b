#include "coordinator/api_score.h"

#include <map>
#include <nlohmann/json.hpp>

#include "coordinator/token_scores.h"

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

void check_candidates(const std::vector<ScoredCandidate>& candidates, int64_t num_document,
                      const PromptBounds& bounds) {
  std::map<std::vector<int32_t>, size_t> seen;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string name = bounds.field + "[" + std::to_string(i) + "]";
    const auto refuse = [&](const std::string& what) {
      throw ApiError(400, bounds.field, "'" + name + "' " + what);
    };
    const std::vector<int32_t>& ids = candidates[i].ids;
    if (ids.empty()) refuse("is empty, want at least one token");
    for (const int32_t id : ids) {
      if (id >= 0 && id < bounds.vocab_size) continue;
      refuse("has the id " + std::to_string(id) + ", want below " +
             std::to_string(bounds.vocab_size));
    }
    const int64_t both = num_document + static_cast<int64_t>(ids.size());
    if (both > bounds.max_context) {
      refuse("and the document are " + std::to_string(both) + " tokens, want at most " +
             std::to_string(bounds.max_context));
    }
    const auto [first, is_new] = seen.emplace(ids, i);
    if (!is_new)
      refuse("has the tokens of '" + bounds.field + "[" + std::to_string(first->second) +
             "]', want each once");
  }
}

std::string api_score_answer(const ApiIdentity& who, const std::vector<ScoredCandidate>& candidates,
                             const ApiUsage& usage) {
  std::vector<double> sums;
  for (const ScoredCandidate& one : candidates) sums.push_back(sum_of(one.logprobs));
  const ClosedSet set = closed_set(sums);
  Json list = Json::array();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const ScoredCandidate& one = candidates[i];
    list.push_back({{"index", i},
                    {"text", one.text},
                    {"ids", one.ids},
                    {"logprob", sums[i]},
                    {"logprob_per_token", sums[i] / static_cast<double>(one.ids.size())},
                    {"probability", set.probabilities[i]}});
  }
  const Json answer = {{"id", who.id},
                       {"object", "score"},
                       {"created", who.created},
                       {"model", who.model},
                       {"candidates", std::move(list)},
                       {"best", set.best},
                       {"entropy", set.entropy},
                       {"normalised_entropy", set.normalised_entropy},
                       {"usage",
                        {{"prompt_tokens", usage.prompt_tokens},
                         {"completion_tokens", 0},
                         {"total_tokens", usage.prompt_tokens},
                         {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}}}};
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace colibri
