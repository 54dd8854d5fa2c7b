#include "coordinator/engine.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace colibri {

Engine::Engine(Forward& forward, KvCache& cache, int64_t vocab_size, const EngineOptions& options)
    : forward_(forward), cache_(cache), vocab_size_(vocab_size), options_(options) {}

int Engine::add(Request request) {
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  if (prompt == 0) fail(ErrorKind::kInput, "the prompt is empty, want at least one token");
  if (prompt + (request.max_tokens > 0 ? 1 : 0) > options_.max_context) {
    fail(ErrorKind::kInput, "the prompt is ", prompt, " tokens, want at most ",
         options_.max_context - 1, " (--max-context ", options_.max_context,
         "); shorten it or raise --max-context up to what the model allows");
  }
  for (const int32_t id : request.prompt_ids) {
    if (id < 0 || id >= vocab_size_) {
      fail(ErrorKind::kInput, "prompt id ", id, " is outside the vocabulary, want [0, ",
           vocab_size_, ")");
    }
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->ids = request.prompt_ids;
  sequence->request = std::move(request);
  sequence->number = static_cast<int32_t>(sequences_.size());
  sequences_.push_back(std::move(sequence));
  return static_cast<int>(sequences_.size()) - 1;
}

FinishReason Engine::finish_reason(int request) const {
  return sequences_.at(static_cast<size_t>(request))->finish;
}

void Engine::cancel_all() {
  for (auto& sequence : sequences_) {
    if (sequence->finish == FinishReason::kNone) end(*sequence, FinishReason::kCancelled);
  }
}

bool Engine::step() {
  choose_running();
  if (running_.empty()) return false;
  plan_step(states_, options_.limits, parts_);
  build_batch();
  const auto start = std::chrono::steady_clock::now();
  const std::span<const StepRow> rows = forward_.run(batch_, options_.step_timeout_ms);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool decodes_only = std::all_of(parts_.begin(), parts_.end(), [this](const StepPart& part) {
    const Sequence& sequence = *running_[static_cast<size_t>(part.sequence_idx)];
    return sequence.num_cached >= static_cast<int64_t>(sequence.request.prompt_ids.size());
  });
  (decodes_only ? totals_.decode_s : totals_.prefill_s) += seconds;
  ++totals_.num_steps;
  hand_out(rows);
  return true;
}

void Engine::choose_running() {
  while (first_unfinished_ < sequences_.size() &&
         sequences_[first_unfinished_]->finish != FinishReason::kNone) {
    ++first_unfinished_;
  }
  running_.clear();
  states_.clear();
  for (size_t i = first_unfinished_; i < sequences_.size(); ++i) {
    if (static_cast<int>(running_.size()) == options_.max_batch) break;
    Sequence& sequence = *sequences_[i];
    if (sequence.finish != FinishReason::kNone) continue;
    running_.push_back(&sequence);
    states_.push_back({static_cast<int64_t>(sequence.ids.size()), sequence.num_cached});
  }
}

void Engine::build_batch() {
  batch_.clear();
  // Page tables first: a batch row points into its sequence's table, which must not move after.
  for (const StepPart& part : parts_) {
    Sequence& sequence = *running_[static_cast<size_t>(part.sequence_idx)];
    const auto end = static_cast<size_t>(sequence.num_cached + part.count);
    while (sequence.pages.size() * kTile < end) sequence.pages.push_back(cache_.take_page());
  }
  for (const StepPart& part : parts_) {
    add_part(*running_[static_cast<size_t>(part.sequence_idx)], part.count);
  }
}

void Engine::add_part(Sequence& sequence, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = sequence.num_cached + i;
    if (const auto row = wanted_of(sequence, position)) batch_.logit_rows.push_back(*row);
    batch_.ids.push_back(sequence.ids[static_cast<size_t>(position)]);
    batch_.positions.push_back(static_cast<int32_t>(position));
    batch_.sequences.push_back(sequence.number);
    batch_.rows.push_back({sequence.pages.data(), static_cast<int32_t>(position)});
  }
}

// The last known position decides the next token; the others are wanted only for scoring.
std::optional<LogitRow> Engine::wanted_of(const Sequence& sequence, int64_t position) const {
  const Request& request = sequence.request;
  const bool is_last = position + 1 == static_cast<int64_t>(sequence.ids.size());
  const bool is_picked = is_last && request.max_tokens > 0;
  const bool is_scored = !is_last && request.score_prompt;
  LogitRow row{.token = static_cast<int32_t>(batch_.ids.size()),
               .is_shown = request.on_logits && (is_picked || is_scored)};
  if (is_picked) {
    row.pick = token_draw(request.sampling, {.position = sequence.ids.size()}, vocab_size_);
  }
  return row.is_shown || is_picked ? std::optional(row) : std::nullopt;
}

void Engine::hand_out(std::span<const StepRow> rows) {
  int64_t end = 0;  // of the part's tokens in the batch
  size_t i = 0;
  for (const StepPart& part : parts_) {
    Sequence& sequence = *running_[static_cast<size_t>(part.sequence_idx)];
    end += part.count;
    for (; i < rows.size() && batch_.logit_rows[i].token < end; ++i) {
      if (batch_.logit_rows[i].is_shown) sequence.request.on_logits(rows[i].logits);
      if (batch_.logit_rows[i].pick) take_token(sequence, rows[i].id);
    }
    advance(sequence, part.count);
  }
}

void Engine::advance(Sequence& sequence, int64_t count) {
  const auto prompt = static_cast<int64_t>(sequence.request.prompt_ids.size());
  totals_.num_prompt_tokens += std::clamp<int64_t>(prompt - sequence.num_cached, 0, count);
  sequence.num_cached += count;
  const bool is_scored_out = sequence.request.max_tokens == 0 &&
                             sequence.num_cached == static_cast<int64_t>(sequence.ids.size());
  if (is_scored_out && sequence.finish == FinishReason::kNone) {
    end(sequence, FinishReason::kLength);
  }
  if (sequence.finish != FinishReason::kNone) cache_.give_back(sequence.pages);
}

void Engine::take_token(Sequence& sequence, int32_t id) {
  const Request& request = sequence.request;
  ++totals_.num_new_tokens;
  if (std::find(request.stop_ids.begin(), request.stop_ids.end(), id) != request.stop_ids.end()) {
    if (request.on_token) request.on_token(id);
    end(sequence, FinishReason::kStop);
    return;
  }
  sequence.ids.push_back(id);
  const auto num_new =
      static_cast<int64_t>(sequence.ids.size()) - static_cast<int64_t>(request.prompt_ids.size());
  if (request.on_token && !request.on_token(id)) {
    end(sequence, FinishReason::kStop);
  } else if (num_new >= request.max_tokens ||
             static_cast<int64_t>(sequence.ids.size()) >= options_.max_context) {
    end(sequence, FinishReason::kLength);
  }
}

void Engine::end(Sequence& sequence, FinishReason reason) { sequence.finish = reason; }

}  // namespace colibri
