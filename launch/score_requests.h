// What `score` is asked: documents and their continuations, read and encoded before any weight is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/run_config.h"
#include "model/checkpoint.h"

namespace colibri {

struct ScoredText {
  std::string text;
  std::vector<int32_t> ids;
};

struct ScoreRequest {
  std::vector<int32_t> document;          // specials included
  std::vector<ScoredText> continuations;  // at least one; encoded alone, without specials

  int64_t longest() const;  // tokens of the document and its longest continuation
};

// From --document, --document-file or --requests. `max_context` is the most tokens of a document
// with a continuation. Errors: kInput naming file and line for what is no request, for a document
// or a continuation without a token, and for one that is too long.
std::vector<ScoreRequest> read_score_requests(const ScoreOptions& options,
                                              const Checkpoint& checkpoint, int64_t max_context);

}  // namespace colibri
