#include "launch/perplexity.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "launch/model_text.h"
#include "launch/rank_signals.h"
#include "launch/scoring.h"
#include "launch/session_setup.h"

namespace colibri {
namespace {

constexpr int64_t kDefaultWindow = 2048;

}  // namespace

PerplexityText read_perplexity_text(const std::string& path, const CommonOptions& options,
                                    const Checkpoint& checkpoint) {
  const int64_t limit = context_limit(options, checkpoint.config());
  PerplexityText text;
  text.window = options.max_context > 0 ? limit : std::min(limit, kDefaultWindow);
  if (text.window < 2) {
    fail(ErrorKind::kInput, "--max-context is ", text.window,
         ", want at least 2: the first token of a window is not scored");
  }
  text.ids = load_tokenizer(checkpoint)->encode(read_text_of(path, "--perplexity"));
  if (text.ids.size() < 2) {
    fail(ErrorKind::kInput, "--perplexity ", path, " holds ", text.ids.size(),
         " tokens, want at least 2: the first is not scored");
  }
  return text;
}

Perplexity measure_perplexity(Scorer& scorer, const PerplexityText& text) {
  Perplexity result;
  double sum = 0;
  const auto start = std::chrono::steady_clock::now();
  const std::span<const int32_t> ids(text.ids);
  const auto window = static_cast<size_t>(text.window);
  for (size_t at = 0; at + 1 < ids.size(); at += window) {
    if (drain_requested() && result.num_windows > 0) {
      result.was_stopped = true;
      break;
    }
    scorer.score_text(ids.subspan(at, std::min(window, ids.size() - at)), [&](double log_p) {
      sum -= log_p;
      ++result.num_tokens;
    });
    ++result.num_windows;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.mean_nll = sum / static_cast<double>(result.num_tokens);
  result.perplexity = std::exp(result.mean_nll);
  result.tokens_per_s = static_cast<double>(result.num_tokens) / result.seconds;
  return result;
}

}  // namespace colibri
