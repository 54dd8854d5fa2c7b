// How likely given tokens are after given tokens. Nothing is generated, and a document is read once
// however many continuations it has.
//
// A continuation runs at the positions after the document, on the document's own pages; the next
// one writes over them. That is sound because attention never reads a slot after a token's own
// position.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "coordinator/batch.h"
#include "coordinator/forward.h"
#include "coordinator/kv_cache.h"
#include "coordinator/token_scores.h"

namespace colibri {

struct ScorerOptions {
  int64_t vocab_size = 0;   // V
  int64_t max_context = 0;  // most ids of a document and a continuation together
  int64_t chunk = 512;      // most tokens of one step; at most what `forward` was made for
  int64_t step_timeout_ms = 30000;
};

// Most rows of logits [rows, V] that are scored in one step of up to `chunk` tokens: bounds their
// memory however large the vocabulary is.
int64_t max_scored_rows(int64_t vocab_size, int64_t chunk);

class Scorer {
 public:
  // `forward` and `cache` outlive it. It takes pages for max_context positions as it needs them and
  // gives them back when it is destroyed.
  Scorer(Forward& forward, KvCache& cache, const ScorerOptions& options);
  ~Scorer();
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  // Forgets the document before and reads this one.
  // Errors: kInput for no ids, more than max_context, or an id outside [0, V); those of Forward.
  void read_document(std::span<const int32_t> ids);

  // log p of each id, given the document and the ids before it. Runs all ids but the last. Results
  // are the same bits in whatever order continuations come. Errors: as read_document.
  std::vector<double> score(std::span<const int32_t> continuation);

  // Reads `ids` as a text of its own and hands out log p of each but the first, in order.
  // Afterwards no document is read. Errors: as read_document; kInput for fewer than two ids.
  using OnLogProbability = std::function<void(double)>;
  void score_text(std::span<const int32_t> ids, const OnLogProbability& on_log_probability);

 private:
  enum class Rows { kLast, kAll };  // positions whose logits are wanted
  // logits [V] of the token at `idx` in the ids that run.
  using OnRow = std::function<void(size_t idx, std::span<const float> logits)>;

  void check_ids(std::span<const int32_t> ids, int64_t begin, const char* what) const;
  void forget();
  void run(std::span<const int32_t> ids, int64_t begin, Rows rows, const OnRow& on_row);
  void fill_batch(std::span<const int32_t> ids, int64_t begin, Rows rows, bool is_last);

  Forward& forward_;
  KvCache& cache_;
  ScorerOptions options_;
  std::vector<int32_t> pages_;
  int64_t num_document_ = 0;
  std::vector<float> last_row_;  // [V] after the document
  int32_t sequence_ = -1;        // every text and continuation has a number of its own
  Batch batch_;
};

}  // namespace colibri
