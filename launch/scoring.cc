#include "launch/scoring.h"

#include "base/error.h"

namespace colibri {

int64_t context_limit(const CommonOptions& options, const ModelConfig& config) {
  if (options.max_context > config.max_positions) {
    fail(ErrorKind::kInput, "--max-context is ", options.max_context,
         ", but config.json says max_position_embeddings ", config.max_positions);
  }
  return options.max_context > 0 ? options.max_context : config.max_positions;
}

ScorerOptions scorer_options(const CommonOptions& options, const ModelConfig& config,
                             int64_t max_context) {
  return {.vocab_size = config.vocab_size,
          .max_context = max_context,
          .chunk = options.chunk,
          .step_timeout_ms = int64_t{options.step_timeout_s} * 1000};
}

}  // namespace colibri
