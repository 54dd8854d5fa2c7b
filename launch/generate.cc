#include "launch/generate.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "coordinator/answer.h"
#include "launch/model_session.h"
#include "launch/npy_writer.h"
#include "launch/process_clock.h"
#include "launch/prompts.h"
#include "launch/rank_signals.h"
#include "launch/session_setup.h"
#include "launch/standard_out.h"
#include "launch/summary.h"

namespace colibri {
namespace {

void print_warning(const std::string& text) {
  std::fprintf(stderr, "colibri: warning: %s\n", text.c_str());
}

// Rank 0's side of one run of the verb.
class Generation {
 public:
  Generation(const RunConfig& config, ModelSession& session, PromptSet prompts)
      : options_(config.generate), session_(session), prompts_(std::move(prompts)) {
    if (!options_.logits_out.empty()) {
      logits_ = std::make_unique<NpyWriter>(options_.logits_out,
                                            session.checkpoint().config().vocab_size);
    }
  }

  int serve(Engine& engine);

 private:
  bool streams() const {
    return prompts_.ids.size() == 1 && !options_.print_ids && !options_.print_json;
  }
  void add_requests(Engine& engine);
  Request make_request(size_t prompt_idx);
  void print(const Engine& engine);
  void print_ids(const Answer& answer) const;
  void print_json(size_t prompt_idx, FinishReason reason) const;
  nlohmann::json timings(const Answer& answer) const;
  void print_summary(const Engine& engine, double load_s);

  const GenerateOptions& options_;
  ModelSession& session_;
  PromptSet prompts_;
  std::vector<std::unique_ptr<Answer>> answers_;
  std::unique_ptr<NpyWriter> logits_;
  Answer::Clock::time_point start_;
};

int Generation::serve(Engine& engine) {
  const double load_s = seconds_since_process_start();
  for (const std::string& warning : prompts_.warnings) print_warning(warning);
  add_requests(engine);
  start_ = Answer::Clock::now();
  while (engine.step()) {
    if (!drain_requested()) continue;
    engine.cancel_all();
    break;
  }
  for (auto& answer : answers_) answer->finish();
  print(engine);
  if (logits_) logits_->commit();
  print_summary(engine, load_s);
  return 0;
}

void Generation::add_requests(Engine& engine) {
  for (size_t i = 0; i < prompts_.ids.size(); ++i) {
    const auto on_text = [this](const std::string& text) {
      if (streams()) write_out(text);
    };
    answers_.push_back(std::make_unique<Answer>(prompts_.tokenizer.get(), options_.stop, on_text));
    engine.add(make_request(i));
  }
}

Request Generation::make_request(size_t prompt_idx) {
  Request request;
  request.prompt_ids = prompts_.ids[prompt_idx];
  request.max_tokens = options_.max_tokens;
  request.sampling = prompts_.sampling;
  request.stop_ids = prompts_.eos_ids;
  request.score_prompt = options_.score_prompt && prompt_idx == 0;
  request.on_token = [answer = answers_[prompt_idx].get()](int32_t id) { return answer->push(id); };
  if (logits_ && prompt_idx == 0) {
    request.on_logits = [this](std::span<const float> row) { logits_->add_row(row); };
  }
  return request;
}

void Generation::print(const Engine& engine) {
  if (streams()) {
    const std::string& text = answers_[0]->text();
    if (text.empty() || text.back() != '\n') write_out("\n");
    return;
  }
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (options_.print_ids) {
      print_ids(*answers_[i]);
    } else if (options_.print_json) {
      print_json(i, engine.finish_reason(static_cast<int>(i)));
    } else {
      write_out(answers_[i]->text() + "\n");
    }
  }
}

void Generation::print_ids(const Answer& answer) const {
  std::string line;
  for (const int32_t id : answer.ids()) {
    line += (line.empty() ? "" : ",") + std::to_string(id);
  }
  write_out(line + "\n");
}

void Generation::print_json(size_t prompt_idx, FinishReason reason) const {
  const Answer& answer = *answers_[prompt_idx];
  const nlohmann::json object = {{"text", answer.text()},
                                 {"ids", answer.ids()},
                                 {"prompt_ids", prompts_.ids[prompt_idx]},
                                 {"finish_reason", to_string(reason)},
                                 {"timings", timings(answer)},
                                 {"ranks", session_.placement().num_ranks()}};
  write_out(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

nlohmann::json Generation::timings(const Answer& answer) const {
  if (!answer.first_token_at()) return nlohmann::json::object();
  const auto ms = [](Answer::Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  };
  return {{"first_token_ms", ms(*answer.first_token_at() - start_)},
          {"total_ms", ms(answer.last_token_at() - start_)}};
}

void Generation::print_summary(const Engine& engine, double load_s) {
  const auto seconds_to = [this](Answer::Clock::time_point t) {
    return std::chrono::duration<double>(t - start_).count();
  };
  const ExchangeTotals exchange = session_.exchange_totals();
  SummaryInput input;
  input.engine = &engine.totals();
  input.exchange = &exchange;
  input.fixed = session_.fixed_steps();
  input.placement = &session_.placement();
  input.shape = &session_.shape();
  input.backend = session_.ops().name();
  input.load_s = load_s;
  input.elapsed_s = engine.totals().decode_s + engine.totals().prefill_s;
  if (const auto first = answers_[0]->first_token_at()) input.first_token_s = seconds_to(*first);
  std::fputs(summary_text(input).c_str(), stderr);
  for (const std::string& warning : session_.load_stats().collapsed_layers(32)) {
    print_warning(warning);
  }
}

SessionNeeds needs_of(const GenerateOptions& options, const CommonOptions& common,
                      const PromptSet& prompts, const ModelConfig& config) {
  const int64_t limit = context_limit(common, config);
  SessionNeeds needs;
  needs.num_sequences = static_cast<int>(prompts.ids.size());
  needs.scores_prompts = options.score_prompt;
  for (const auto& ids : prompts.ids) {
    const auto length = static_cast<int64_t>(ids.size());
    if (length + (options.max_tokens > 0 ? 1 : 0) > limit) {
      fail(ErrorKind::kInput, "the prompt is ", length, " tokens, want at most ", limit - 1,
           common.max_context > 0 ? " (--max-context)" : " (the model's max_position_embeddings)",
           "; shorten it");
    }
    needs.max_context = std::max(needs.max_context, std::min(limit, length + options.max_tokens));
  }
  return needs;
}

}  // namespace

int generate(const RunConfig& config, RankContext& context) {
  PromptSet prompts;
  const auto prepare = [&](const Checkpoint& checkpoint) {
    prompts = read_prompts(config.generate, checkpoint);
    return needs_of(config.generate, config.common, prompts, checkpoint.config());
  };
  return run_session(config.common, context, prepare, {},
                     [&](ModelSession& session, Serving& serving) {
                       return Generation(config, session, std::move(prompts)).serve(serving.engine);
                     });
}

}  // namespace colibri
