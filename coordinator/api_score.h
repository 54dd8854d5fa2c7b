// /v1/score: which of a closed set of texts follows a document, and how likely each is. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/api_response.h"
#include "coordinator/api_routes.h"

namespace colibri {

struct ScoredCandidate {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<double> logprobs = {};  // of each id, after the document and the ids before
};

// Errors: ApiError for a candidate of no token, with an id outside the vocabulary, that is too long
// after a document of so many tokens, or that comes twice.
void check_candidates(const std::vector<ScoredCandidate>& candidates, int64_t num_document,
                      const PromptBounds& bounds);

// The sums, the shares among the candidates, and the entropy of these, as `colibri score` has them.
std::string api_score_answer(const ApiIdentity& who, const std::vector<ScoredCandidate>& candidates,
                             const ApiUsage& usage);

}  // namespace colibri
