#include "launch/scoring.h"

namespace colibri {

ScorerOptions scorer_options(const CommonOptions& options, const ModelConfig& config,
                             int64_t max_context) {
  return {.vocab_size = config.vocab_size,
          .max_context = max_context,
          .chunk = options.chunk,
          .step_timeout_ms = int64_t{options.step_timeout_s} * 1000};
}

}  // namespace colibri
