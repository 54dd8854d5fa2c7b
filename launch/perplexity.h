// How well a model foretells a text: exp of the mean negative log probability of its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/scorer.h"
#include "launch/run_config.h"
#include "model/checkpoint.h"

namespace colibri {

struct PerplexityText {
  std::vector<int32_t> ids;  // of the whole file, specials included
  int64_t window = 0;        // most tokens read at once; each window begins anew
};

// Reads and encodes a text file before anything is loaded. The window is --max-context, else the
// model's max_position_embeddings and at most 2048. Errors: kInput when the file cannot be read, is
// shorter than two tokens, or the window is.
PerplexityText read_perplexity_text(const std::string& path, const CommonOptions& options,
                                    const Checkpoint& checkpoint);

struct Perplexity {
  int64_t num_windows = 0;
  int64_t num_tokens = 0;    // scored: all but each window's first
  double mean_nll = 0;       // nats a token
  double perplexity = 0;     // exp(mean_nll)
  double seconds = 0;        // of reading and scoring
  double tokens_per_s = 0;   // scored ones
  bool was_stopped = false;  // by a signal, after num_windows windows
};

// `scorer` was made for at least text.window tokens. The result is the same bits whatever the
// chunk, the ranks and the threads. Errors: those of Scorer.
Perplexity measure_perplexity(Scorer& scorer, const PerplexityText& text);

}  // namespace colibri
