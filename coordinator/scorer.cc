#include "coordinator/scorer.h"

#include <algorithm>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int64_t kMaxLogitsBytes = 64'000'000;

}  // namespace

int64_t max_scored_rows(int64_t vocab_size, int64_t chunk) {
  const auto row_bytes = vocab_size * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kMaxLogitsBytes / row_bytes, 1, chunk);
}

Scorer::Scorer(Forward& forward, KvCache& cache, const ScorerOptions& options)
    : forward_(forward), cache_(cache), options_(options) {
  check(options.vocab_size > 0 && options.chunk > 0, "scorer of a vocabulary of ",
        options.vocab_size, " and steps of ", options.chunk, " tokens");
}

Scorer::~Scorer() { forget(); }

void Scorer::forget() {
  cache_.give_back(pages_);
  pages_.clear();
  num_document_ = 0;
}

void Scorer::check_ids(std::span<const int32_t> ids, int64_t begin, const char* what) const {
  if (ids.empty()) fail(ErrorKind::kInput, "the ", what, " is empty, want at least one token");
  const int64_t end = begin + static_cast<int64_t>(ids.size());
  if (end > options_.max_context) {
    fail(ErrorKind::kInput, "the ", what, " ends at token ", end, ", want at most ",
         options_.max_context, " (--max-context); shorten it or raise --max-context");
  }
  for (const int32_t id : ids) {
    if (id >= 0 && id < options_.vocab_size) continue;
    fail(ErrorKind::kInput, "the ", what, " holds token id ", id,
         " outside the vocabulary, want 0 to ", options_.vocab_size - 1);
  }
}

void Scorer::read_document(std::span<const int32_t> ids) {
  check_ids(ids, 0, "document");
  forget();
  run(ids, 0, Rows::kLast, [this](size_t, std::span<const float> logits) {
    last_row_.assign(logits.begin(), logits.end());
  });
  num_document_ = static_cast<int64_t>(ids.size());
}

std::vector<double> Scorer::score(std::span<const int32_t> continuation) {
  check(num_document_ > 0, "a continuation before a document");
  check_ids(continuation, num_document_, "continuation");
  std::vector<double> scores = {log_probability(last_row_, continuation.front())};
  run(continuation.first(continuation.size() - 1), num_document_, Rows::kAll,
      [&](size_t idx, std::span<const float> logits) {
        scores.push_back(log_probability(logits, continuation[idx + 1]));
      });
  return scores;
}

void Scorer::score_text(std::span<const int32_t> ids, const OnLogProbability& on_log_probability) {
  check_ids(ids, 0, "text");
  if (ids.size() < 2) {
    fail(ErrorKind::kInput, "the text is one token, want at least two: the first is not scored");
  }
  forget();
  run(ids.first(ids.size() - 1), 0, Rows::kAll, [&](size_t idx, std::span<const float> logits) {
    on_log_probability(log_probability(logits, ids[idx + 1]));
  });
  forget();
}

void Scorer::run(std::span<const int32_t> ids, int64_t begin, Rows rows, const OnRow& on_row) {
  ++sequence_;
  const auto end = static_cast<size_t>(begin) + ids.size();
  while (pages_.size() * kTile < end) pages_.push_back(cache_.take_page());
  const auto step = static_cast<size_t>(
      rows == Rows::kAll ? max_scored_rows(options_.vocab_size, options_.chunk) : options_.chunk);
  for (size_t at = 0; at < ids.size(); at += step) {
    const auto part = ids.subspan(at, std::min(step, ids.size() - at));
    const bool is_last = at + part.size() == ids.size();
    fill_batch(part, begin + static_cast<int64_t>(at), rows, is_last);
    const auto results = forward_.run(batch_, options_.step_timeout_ms);
    for (size_t i = 0; i < results.size(); ++i) {
      on_row(at + static_cast<size_t>(batch_.logit_rows[i].token), results[i].logits);
    }
  }
}

void Scorer::fill_batch(std::span<const int32_t> ids, int64_t begin, Rows rows, bool is_last) {
  batch_.clear();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto position = static_cast<int32_t>(begin + static_cast<int64_t>(i));
    const bool ends = is_last && i + 1 == ids.size();
    if (rows == Rows::kAll || ends) {
      batch_.logit_rows.push_back({.token = static_cast<int32_t>(i), .is_shown = true});
    }
    batch_.ids.push_back(ids[i]);
    batch_.positions.push_back(position);
    batch_.sequences.push_back(sequence_);
    batch_.rows.push_back({pages_.data(), position});
  }
}

}  // namespace colibri
