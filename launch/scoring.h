// What `score` and `bench --perplexity` share.
#pragma once

#include <cstdint>

#include "coordinator/scorer.h"
#include "launch/run_config.h"
#include "model/config.h"

namespace colibri {

// Most tokens of one sequence: --max-context, else what the model was made for. Fails with kInput
// when --max-context is more than that.
int64_t context_limit(const CommonOptions& options, const ModelConfig& config);

ScorerOptions scorer_options(const CommonOptions& options, const ModelConfig& config,
                             int64_t max_context);

}  // namespace colibri
