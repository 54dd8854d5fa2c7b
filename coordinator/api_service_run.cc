// The half of ApiService that runs on the engine's thread.
#include <chrono>
#include <thread>

#include "base/error.h"
#include "coordinator/api_job.h"
#include "coordinator/api_routes.h"
#include "coordinator/api_service.h"

namespace colibri {
namespace {

const char* ended_because(FinishReason reason, bool is_gone) {
  if (is_gone || reason == FinishReason::kCancelled) return "abort";
  return to_string(reason);
}

}  // namespace

std::vector<std::shared_ptr<ApiService::Job>> ApiService::take_jobs(bool may_wait) {
  std::unique_lock lock(mutex_);
  // Not for long: `is_over` is asked in between.
  const auto has_come = [this] {
    return !waiting_.empty() || asked_rebalance_ || (!tasks_.empty() && !ranks_->is_rebalancing());
  };
  if (may_wait) came_.wait_for(lock, std::chrono::milliseconds(50), has_come);
  return std::exchange(waiting_, {});
}

// Requests that were taken and are not yet live. Once it is false after is_open_ was, it stays so.
bool ApiService::has_more() {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() || !tasks_.empty() || num_preparing_ > 0;
}

void ApiService::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_closed_ = why;
  is_open_ = false;
}

void ApiService::run(const ApiEngine& parts, const std::function<bool()>& is_over) {
  Engine& engine = parts.engine;
  ranks_ = &parts.ranks;
  profiles_.set_tracer(parts.tracer);
  is_open_ = true;
  bool works = false;
  for (;;) {
    try {
      if (is_open_ && is_over()) close("no step can run: the server is ending");
      const auto jobs = take_jobs(!works);
      run_tasks();
      for (const auto& job : jobs) begin(engine, job);
      cancel_gone(engine);
      begin_rebalance();
      works = step(engine);
      count_step(engine, works);
      if (works && parts.after_step) parts.after_step();
      std::erase_if(live_, [](const auto& job) { return job->num_ended == job->choices.size(); });
      const bool is_idle = !works && jobs.empty() && !has_more() && !ranks_->is_rebalancing();
      if (is_idle && !is_open_) break;
    } catch (const Error& error) {
      return go_down(engine, error, is_over);
    } catch (const std::exception& error) {
      close(error.what());
      end_all(503, error.what());
      throw;
    }
  }
  end_rebalances();
  end_profile([this] { profiles_.stop(); });
}

// Not while experts move: workers then owe an answer on the same channel.
void ApiService::run_tasks() {
  if (ranks_->is_rebalancing()) return;
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) {
    try {
      send_json(*task.reply, task.work());
    } catch (const ApiError& error) {
      send_error(*task.reply, error.status(), error.param(), error.what());
    } catch (const Error& error) {
      send_error(*task.reply, status_of(error.kind()), "", error.what());
    }
  }
}

void ApiService::count_step(const Engine& engine, bool has_worked) {
  if (!has_worked) return metrics_.idle(engine);
  metrics_.step_done(engine);
  if (ranks_->is_rebalancing()) return;
  end_profile([this] { profiles_.step_done(); });
}

// A file that cannot be written ends no request.
void ApiService::end_profile(const std::function<void()>& how) {
  if (!profiles_.is_active()) return;
  try {
    how();
  } catch (const Error& error) {
    if (options_.log) options_.log(std::string("the profile is lost: ") + error.what());
  }
}

// A step that failed for the loss of a rank runs again, once the others hold its experts.
bool ApiService::step(Engine& engine) {
  ranks_->look();
  try {
    return engine.step();
  } catch (const Error& error) {
    ranks_->recover(error);
    return true;
  }
}

// No step can run any more. Who asks is told why, until somebody ends this server.
void ApiService::go_down(Engine& engine, const Error& error, const std::function<bool()>& is_over) {
  close(error.what());
  end_all(503, error.what());
  engine.cancel_all();
  live_.clear();
  const bool is_loss = error.kind() == ErrorKind::kRankLost ||
                       error.kind() == ErrorKind::kTimeout ||
                       error.kind() == ErrorKind::kEnvironment;
  while (is_loss && !is_over()) {
    end_rebalances();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw Error(error.kind(), error.what());
}

void ApiService::begin(Engine& engine, const std::shared_ptr<Job>& job) {
  const auto n = static_cast<size_t>(job->asked.n);
  job->choices.resize(job->prompts.size() * n);
  if (job->asked.stream) {
    job->reply->begin(200, {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}});
    for (size_t i = 0; i < job->choices.size(); ++i) {
      job->write(api_first_event(job->who, static_cast<int>(i)));
    }
  }
  live_.push_back(job);
  for (size_t i = 0; i < job->choices.size(); ++i) {
    job->choices[i].text = std::make_unique<GrowingChoice>(
        *model_.tokenizer, job->choice_options(i, *model_.tokenizer),
        [job = job.get()](const ApiChoice& piece) { job->on_piece(piece); });
    job->choices[i].text->begin();
  }
  for (size_t i = 0; i < job->choices.size(); ++i) {
    AnswerTimes& times = job->choices[i].times;
    times.arrived = job->arrived;
    times.num_prompt_tokens = static_cast<int64_t>(job->prompts[i / n].size());
    job->choices[i].engine_number = engine.add(request_of(job, i));
  }
}

Request ApiService::request_of(const std::shared_ptr<Job>& job, size_t index) {
  const auto n = static_cast<size_t>(job->asked.n);
  Request request;
  request.prompt_ids = job->prompts[index / n];
  request.choice_idx = index % n;
  request.sampling = job->sampling;
  request.logit_rules = job->asked.sampling.rules;
  const auto room = model_.max_context - static_cast<int64_t>(request.prompt_ids.size());
  const int64_t otherwise = job->who.is_chat ? room : 16;
  request.max_tokens = std::min(job->asked.max_tokens.value_or(otherwise), room);
  if (!job->candidates.empty()) request.max_tokens = 0;
  for (const auto& one : job->candidates) request.continuations.push_back(one.ids);
  request.stop_ids = job->end_ids;
  Job* const raw = job.get();
  request.on_begin = [this, raw, index] { metrics_.begun(raw->choices[index].times); };
  request.on_token = [this, raw, index](int32_t id) {
    Choice& choice = raw->choices[index];
    const bool goes_on = choice.text->add_token(id);
    metrics_.token(choice.times, choice.text->last_token_at());
    return goes_on && !raw->is_gone;
  };
  request.on_continuations = [raw](std::span<const std::vector<double>> logprobs) {
    for (size_t i = 0; i < logprobs.size(); ++i) raw->candidates[i].logprobs = logprobs[i];
  };
  if (request.choice_idx == 0) {
    request.on_start = [raw](int64_t num_reused) { raw->num_cached_tokens += num_reused; };
  }
  if (job->asked.top_logprobs) {
    request.score_prompt = job->asked.echo;
    request.num_top_scores = *job->asked.top_logprobs;
    request.on_score = [raw, index](const TokenScore& score) {
      raw->choices[index].text->add_score(score);
    };
  }
  request.on_end = [this, raw, index, most = request.max_tokens](FinishReason reason) {
    const char* why = raw->has_failed ? "error" : ended_because(reason, raw->is_gone);
    count_end(*raw, index, why, most);
    raw->end(index, reason);
  };
  return request;
}

// Before the answer's last byte goes, so that its reader finds it counted.
void ApiService::count_end(const Job& job, size_t index, const char* reason, int64_t max_tokens) {
  metrics_.ended(job.choices[index].times,
                 {.reason = reason, .max_tokens = max_tokens, .n = job.asked.n});
}

// A client that has gone is not worked for.
void ApiService::cancel_gone(Engine& engine) {
  for (const auto& job : live_) {
    if (job->reply->is_gone()) job->is_gone = true;
    if (!job->is_gone) continue;
    for (const Choice& choice : job->choices) {
      if (choice.text->reason() == FinishReason::kNone) engine.cancel(choice.engine_number);
    }
  }
}

// Nothing of what is answered here is written again when the engine ends it too.
void ApiService::end_all(int status, const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  for (const auto& job : take_jobs(false)) job->fail(status, message);
  for (const auto& job : live_) {
    job->fail(status, message);
    job->is_gone = job->has_failed = true;
  }
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) send_error(*task.reply, status, "", message);
}

void ApiService::begin_rebalance() {
  const std::lock_guard lock(mutex_);
  if (!asked_rebalance_) return;
  const auto reply = asked_rebalance_->reply;
  const bool begins = ranks_->rebalance(
      std::move(asked_rebalance_->next), [this, reply](const RebalanceResult& result) {
        metrics_.rebalanced(result);
        if (!result.error) return send_json(*reply, rebalance_body(result));
        send_error(*reply, status_of(result.error->kind), "", result.error->message);
      });
  asked_rebalance_.reset();
  if (!begins) send_error(*reply, 409, "", "a rebalance is under way; try again later");
}

// Of a server that ends.
void ApiService::end_rebalances() {
  const std::lock_guard lock(mutex_);
  if (asked_rebalance_) send_error(*asked_rebalance_->reply, 503, "", why_closed_);
  asked_rebalance_.reset();
}

}  // namespace colibri
