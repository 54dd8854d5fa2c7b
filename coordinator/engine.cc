#include "coordinator/engine.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/error.h"

namespace colibri {

Engine::Engine(Forward& forward, KvCache& cache, int64_t vocab_size, const EngineOptions& options)
    : forward_(forward),
      cache_(cache),
      vocab_size_(vocab_size),
      options_(options),
      pages_(cache, options.prefix_salt),
      scheduler_(pages_, {.step = options.limits,
                          .max_running = options.max_batch,
                          .watermark_pages = options.watermark_pages,
                          .max_overtakes = options.max_overtakes}) {
  check(SequencePages::pages_for(options.max_context) <= cache.num_pages(), "a context of ",
        options.max_context, " positions on ", cache.num_pages(), " pages of ", kTile);
}

Engine::~Engine() {
  for (auto& [number, live] : live_) scheduler_.remove(live->sequence);
}

void Engine::check_prompt(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  if (prompt == 0) fail(ErrorKind::kInput, "the prompt is empty, want at least one token");
  if (prompt + (request.max_tokens > 0 ? 1 : 0) > options_.max_context) {
    fail(ErrorKind::kInput, "the prompt is ", prompt, " tokens, want at most ",
         options_.max_context - 1, " (--max-context ", options_.max_context,
         "); shorten it or raise --max-context up to what the model allows");
  }
  check_ids(request.prompt_ids, "prompt");
  check(request.continuations.empty() || (request.max_tokens == 0 && !request.score_prompt),
        "continuations of a request that also wants tokens or the scores of its prompt");
  for (const auto& ids : request.continuations) {
    if (ids.empty()) fail(ErrorKind::kInput, "a continuation is empty, want at least one token");
    check_ids(ids, "continuation");
    const int64_t both = prompt + static_cast<int64_t>(ids.size());
    if (both <= options_.max_context) continue;
    fail(ErrorKind::kInput, "the prompt and a continuation are ", both, " tokens, want at most ",
         options_.max_context, " (--max-context)");
  }
}

void Engine::check_ids(std::span<const int32_t> ids, const char* what) const {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size_) continue;
    fail(ErrorKind::kInput, what, " id ", id, " is outside the vocabulary, want [0, ", vocab_size_,
         ")");
  }
}

int Engine::add(Request request) {
  check_prompt(request);
  auto made = std::make_unique<Live>();
  Sequence& sequence = made->sequence;
  sequence.number = num_added_++;
  sequence.ids = request.prompt_ids;
  sequence.salt = request.cache_salt;
  // Logits that are wanted must be computed once.
  made->request = std::move(request);
  const bool wants_all = made->request.score_prompt && made->wants_logits();
  sequence.max_reused = wants_all ? 0 : std::numeric_limits<int64_t>::max();
  sequence.is_scored = wants_all;
  const Request& kept = made->request;
  if (kept.logit_rules.has_effect()) {
    made->rules.emplace(kept.logit_rules, kept.prompt_ids, kept.stop_ids);
  }
  if (!kept.continuations.empty()) {
    const auto prompt = static_cast<int64_t>(kept.prompt_ids.size());
    made->continuations.emplace(kept.continuations, prompt);
    // What comes after the prompt is written over, so nobody else may read it, and it must run.
    sequence.max_published = sequence.max_reused = prompt;
  }
  scheduler_.add(sequence);
  const int32_t number = sequence.number;
  live_.emplace(number, std::move(made));
  return number;
}

FinishReason Engine::finish_reason(int request) const {
  if (const auto ended = reasons_.find(request); ended != reasons_.end()) return ended->second;
  check(live_.contains(request), "the finish reason of request ", request,
        ", which was never added or told its own on_end");
  return live_.at(request)->finish;
}

EngineState Engine::state() const {
  return {.num_running = scheduler_.num_running(),
          .num_waiting = scheduler_.num_waiting(),
          .num_preemptions = scheduler_.num_preemptions(),
          .num_pages = cache_.num_pages(),
          .num_idle_pages = pages_.num_available(),
          .prefixes = pages_.prefix_stats()};
}

bool Engine::cancel(int request) {
  const auto it = live_.find(request);
  if (it == live_.end() || it->second->finish != FinishReason::kNone) return false;
  end(*it->second, FinishReason::kCancelled);
  retire_ended();
  return true;
}

void Engine::cancel_all() {
  for (auto& [number, live] : live_) {
    if (live->finish == FinishReason::kNone) end(*live, FinishReason::kCancelled);
  }
  retire_ended();
}

bool Engine::step() {
  parts_ = scheduler_.plan();
  if (parts_.empty()) return false;
  build_batch();
  const auto start = std::chrono::steady_clock::now();
  const std::span<const StepRow> rows = forward_.run(batch_, options_.step_timeout_ms);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool decodes_only = std::all_of(parts_.begin(), parts_.end(), [this](const StepPart& part) {
    return part.sequence->num_cached >= static_cast<int64_t>(live(part).request.prompt_ids.size());
  });
  (decodes_only ? totals_.decode_s : totals_.prefill_s) += seconds;
  ++totals_.num_steps;
  hand_out(rows);
  parts_ = {};
  retire_ended();
  return true;
}

void Engine::build_batch() {
  batch_.clear();
  for (const StepPart& part : parts_) {
    Live& owner = live(part);
    if (!std::exchange(owner.has_begun, true) && owner.request.on_begin) owner.request.on_begin();
    add_part(owner, part.count);
  }
}

// A batch row points into its sequence's table, which the scheduler has made long enough.
void Engine::add_part(const Live& live, int64_t count) {
  const Sequence& sequence = live.sequence;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = sequence.num_cached + i;
    if (const auto row = wanted_of(live, position)) batch_.logit_rows.push_back(*row);
    batch_.ids.push_back(sequence.ids[static_cast<size_t>(position)]);
    batch_.positions.push_back(static_cast<int32_t>(position));
    batch_.sequences.push_back(sequence.number);
    batch_.rows.push_back({sequence.pages.data(), static_cast<int32_t>(position)});
  }
}

// The last known position decides the next token; the others are wanted only for scoring, and once,
// however often they are computed.
std::optional<LogitRow> Engine::wanted_of(const Live& live, int64_t position) const {
  const Request& request = live.request;
  if (live.continuations) {
    if (!live.continuations->wants(position)) return std::nullopt;
    return LogitRow{.token = static_cast<int32_t>(batch_.ids.size()), .is_shown = true};
  }
  const int64_t num_known = live.sequence.num_known();
  const bool is_last = position + 1 == num_known;
  const bool is_picked = is_last && request.max_tokens > 0;
  const bool is_scored = !is_last && request.score_prompt && position >= live.num_handed_out;
  LogitRow row{.token = static_cast<int32_t>(batch_.ids.size()),
               .is_shown = live.wants_logits() && (is_picked || is_scored)};
  if (is_picked) {
    row.pick = token_draw(request.sampling,
                          {.choice_idx = request.choice_idx, .position = live.sequence.ids.size()},
                          vocab_size_);
    row.rules = live.rules ? &*live.rules : nullptr;
  }
  return row.is_shown || is_picked ? std::optional(row) : std::nullopt;
}

void Engine::hand_out(std::span<const StepRow> rows) {
  hands_out_ = true;
  const std::unique_ptr<bool, void (*)(bool*)> guard(&hands_out_,
                                                     [](bool* flag) { *flag = false; });
  int64_t part_end = 0;  // of its tokens in the batch
  size_t i = 0;
  for (const StepPart& part : parts_) {
    Live& owner = live(part);
    part_end += part.count;
    const size_t begin = i;
    while (i < rows.size() && batch_.logit_rows[i].token < part_end) ++i;
    advance(part);
    for (size_t row = begin; row < i; ++row) {
      hand_out_row(owner, batch_.logit_rows[row], rows[row]);
    }
    const bool is_done = owner.sequence.num_to_run() == 0 && !begin_continuation(owner);
    if (is_done) end(owner, FinishReason::kLength);  // scored, no more
  }
}

void Engine::hand_out_row(Live& live, const LogitRow& wanted, const StepRow& row) {
  // An earlier callback of this step may have ended it.
  if (live.finish != FinishReason::kNone) return;
  if (wanted.is_shown) show_row(live, wanted, row);
  if (wanted.pick) take_token(live, row.id);
}

// False when there is none left, or the sequence has ended.
bool Engine::begin_continuation(Live& live) {
  if (!live.continuations || live.finish != FinishReason::kNone) return false;
  Sequence& sequence = live.sequence;
  const Request& request = live.request;
  const auto next = live.continuations->next();
  if (next.empty()) {
    if (request.on_continuations) request.on_continuations(live.continuations->logprobs());
    return false;
  }
  sequence.ids = request.prompt_ids;
  sequence.ids.insert(sequence.ids.end(), next.begin(), next.end());
  sequence.num_cached = static_cast<int64_t>(request.prompt_ids.size());
  sequence.is_scored = true;
  return true;
}

void Engine::show_row(Live& live, const LogitRow& wanted, const StepRow& row) const {
  const Request& request = live.request;
  if (live.continuations) {
    const int64_t position = batch_.positions[static_cast<size_t>(wanted.token)];
    return live.continuations->take(position, row.logits);
  }
  if (request.on_logits) request.on_logits(row.logits);
  if (!request.on_score) return;
  const int64_t next = batch_.positions[static_cast<size_t>(wanted.token)] + 1;
  const int32_t id = wanted.pick ? row.id : live.sequence.ids[static_cast<size_t>(next)];
  TokenScore score = score_token(row.logits, id, request.num_top_scores);
  score.position = next;
  request.on_score(score);
}

void Engine::advance(const StepPart& part) {
  Live& owner = live(part);
  Sequence& sequence = owner.sequence;
  const Request& request = owner.request;
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  totals_.num_prompt_tokens += std::clamp<int64_t>(prompt - sequence.num_cached, 0, part.count);
  if (!std::exchange(owner.has_started, true) && request.on_start) {
    request.on_start(sequence.num_cached);
  }
  scheduler_.advance(part);
  if (owner.continuations) return;
  owner.num_handed_out = std::max(owner.num_handed_out, sequence.num_cached);
  sequence.max_reused = std::max(sequence.max_reused, owner.num_handed_out);
}

void Engine::take_token(Live& live, int32_t id) {
  const Request& request = live.request;
  ++totals_.num_new_tokens;
  if (std::find(request.stop_ids.begin(), request.stop_ids.end(), id) != request.stop_ids.end()) {
    if (request.on_token) request.on_token(id);
    end(live, FinishReason::kStop);
    return;
  }
  live.sequence.ids.push_back(id);
  if (live.rules) live.rules->push(id);
  live.sequence.is_scored = false;  // the prompt is done
  const auto num_new = live.sequence.num_known() - static_cast<int64_t>(request.prompt_ids.size());
  if (request.on_token && !request.on_token(id)) {
    end(live, FinishReason::kStop);
  } else if (num_new >= request.max_tokens || live.sequence.num_known() >= options_.max_context) {
    end(live, FinishReason::kLength);
  }
}

// The first reason counts: a callback may have cancelled it before its token ended it.
void Engine::end(Live& live, FinishReason reason) {
  if (live.finish != FinishReason::kNone) return;
  live.finish = reason;
  ended_.push_back(live.sequence.number);
}

void Engine::retire_ended() {
  if (hands_out_) return;
  while (!ended_.empty()) {
    const int32_t number = ended_.front();
    ended_.pop_front();
    const std::unique_ptr<Live> live = std::move(live_.extract(number).mapped());
    scheduler_.remove(live->sequence);
    if (live->request.on_end) {
      live->request.on_end(live->finish);
    } else {
      reasons_.emplace(number, live->finish);
    }
  }
}

}  // namespace colibri
