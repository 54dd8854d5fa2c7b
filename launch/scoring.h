// What `score` and `bench --perplexity` share.
#pragma once

#include <cstdint>

#include "coordinator/scorer.h"
#include "launch/run_config.h"
#include "model/config.h"

namespace colibri {

ScorerOptions scorer_options(const CommonOptions& options, const ModelConfig& config,
                             int64_t max_context);

}  // namespace colibri
