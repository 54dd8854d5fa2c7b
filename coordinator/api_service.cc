#include "coordinator/api_service.h"

#include <chrono>
#include <random>
#include <thread>

#include "base/error.h"
#include "coordinator/api_choice.h"
#include "coordinator/api_routes.h"
#include "coordinator/api_score.h"
#include "coordinator/measured_reply.h"

namespace colibri {
namespace {

constexpr size_t kMaxPreparingBytes = size_t{64} << 20;  // of bodies that are not read yet
constexpr char kIsRebalancing[] = "a rebalance is under way; try again later";

}  // namespace

// One answer of a request: a prompt's, or one of several of the same prompt.
struct ApiService::Choice {
  std::unique_ptr<GrowingChoice> text;
  int engine_number = -1;
  AnswerTimes times;
};

struct ApiService::Job {
  ApiIdentity who;
  ApiRequest asked;
  SamplingParams sampling;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<int32_t> end_ids;
  std::vector<ScoredCandidate> candidates;  // of the one prompt; nothing is generated then
  std::shared_ptr<HttpReply> reply;
  std::vector<Choice> choices;
  size_t num_ended = 0;
  int64_t num_cached_tokens = 0;
  bool is_gone = false;
  MetricsClock::time_point arrived = MetricsClock::now();

  int64_t num_prompt_tokens() const {
    int64_t count = 0;
    for (const auto& ids : prompts) count += static_cast<int64_t>(ids.size());
    for (const auto& one : candidates) count += static_cast<int64_t>(one.ids.size());
    return count;
  }
  ApiUsage usage() const {
    ApiUsage usage{.prompt_tokens = num_prompt_tokens(), .cached_tokens = num_cached_tokens};
    for (const Choice& choice : choices) usage.completion_tokens += choice.text->num_tokens();
    return usage;
  }
  void write(std::string piece) {
    if (is_gone || piece.empty()) return;
    if (!reply->write(std::move(piece))) is_gone = true;
  }
  void on_piece(const ApiChoice& piece) {
    if (asked.stream) write(api_piece_event(who, piece));
  }
  ChoiceOptions choice_options(size_t index, const Tokenizer& tokenizer) const;
  void end(size_t index, FinishReason reason);
  void finish();
  void fail(int status, const std::string& message);
};

void ApiService::Job::end(size_t index, FinishReason reason) {
  choices[index].text->end(reason);
  ++num_ended;
  if (asked.stream) write(api_reason_event(who, static_cast<int>(index), reason));
  if (num_ended == choices.size()) finish();
}

void ApiService::Job::finish() {
  if (is_gone) return;
  if (asked.stream) {
    if (asked.include_usage) write(api_usage_event(who, usage()));
    write(kApiEndEvent);
    return reply->end();
  }
  const HttpHeaders json = {{"Content-Type", "application/json"}};
  if (!candidates.empty())
    return reply->send(200, json, api_score_answer(who, candidates, usage()));
  std::vector<ApiChoice> all;
  for (const Choice& choice : choices) all.push_back(choice.text->whole());
  reply->send(200, json, api_answer(who, all, usage()));
}

void ApiService::Job::fail(int status, const std::string& message) {
  if (is_gone || num_ended == choices.size()) return;
  if (!asked.stream || choices.empty()) return send_error(*reply, status, "", message);
  write(api_error_event(status, message));
  reply->end();
}

ChoiceOptions ApiService::Job::choice_options(size_t index, const Tokenizer& tokenizer) const {
  const size_t prompt = index / static_cast<size_t>(asked.n);
  ChoiceOptions options{.index = static_cast<int>(index),
                        .stops = asked.stop,
                        .end_ids = end_ids,
                        .has_logprobs = asked.top_logprobs.has_value()};
  if (!asked.echo) return options;
  options.echo_ids = prompts[prompt];
  const auto* text = std::get_if<std::string>(&asked.prompts[prompt]);
  options.echo_text = text != nullptr ? *text : tokenizer.decode(prompts[prompt], true);
  return options;
}

namespace {

const char* ended_because(FinishReason reason, bool is_gone) {
  if (is_gone || reason == FinishReason::kCancelled) return "abort";
  return to_string(reason);
}

}  // namespace

ApiService::ApiService(ApiModel model, ApiOptions options)
    : model_(std::move(model)),
      options_(std::move(options)),
      chats_(*model_.tokenizer, model_.name),
      metrics_({.model = model_.name,
                .max_context = model_.max_context,
                .shows_experts = options_.shows_experts,
                .log = options_.log}),
      profiles_(options_.tracer, options_.profile_dir),
      preparing_({.max_tasks = static_cast<size_t>(options_.max_waiting),
                  .max_bytes = kMaxPreparingBytes}) {}
ApiService::~ApiService() = default;

// Whatever a client sends, the server stays up.
template <class Work>
void ApiService::answer_errors(HttpReply& reply, Work&& work) {
  try {
    work();
  } catch (const ApiError& error) {
    send_error(reply, error.status(), error.param(), error.what());
  } catch (const Error& error) {
    send_error(reply, status_of(error.kind()), "", error.what());
  } catch (const std::exception& error) {
    send_error(reply, 500, "", error.what());
  }
}

void ApiService::handle(HttpRequest request, std::shared_ptr<HttpReply> unmeasured) {
  const auto reply = measured_reply(
      std::move(unmeasured), [this, name = endpoint_name(request)](int status, double seconds) {
        metrics_.answered({name.path, name.method, status, seconds});
      });
  answer_errors(*reply, [&] { route(std::move(request), reply); });
}

void ApiService::route(HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
  const ApiRoute route = find_route(request, options_.api_key);
  switch (route) {
    case ApiRoute::kHealth:
      return health(*reply);
    case ApiRoute::kVersion:
      return send_json(*reply, version_body(model_.version));
    case ApiRoute::kModels:
      return send_json(*reply, models_body(model_.name, model_.max_context));
    case ApiRoute::kMetrics:
      return reply->send(200, {{"Content-Type", ServingMetrics::kContentType}},
                         metrics_.text(num_queued()));
    case ApiRoute::kState: {
      ServingState state = metrics_.state(num_queued());
      state.version = model_.version;
      const std::string query = "&" + request.query + "&";
      return send_json(*reply, state_body(state, query.find("&experts=1&") != query.npos));
    }
    case ApiRoute::kStartProfile:
      profiles_.check_is_on();
      return between_steps(reply, [this, asked = parse_profile_request(request.body)] {
        if (ranks_->is_rebalancing()) throw ApiError(409, "", kIsRebalancing);
        return profiles_.start(asked);
      });
    case ApiRoute::kStopProfile:
      profiles_.check_is_on();
      check_stop_request(request.body);
      return between_steps(reply, [this] { return profiles_.stop(); });
    case ApiRoute::kTokenize:
    case ApiRoute::kDetokenize:
    case ApiRoute::kCompletions:
    case ApiRoute::kChat:
    case ApiRoute::kScore:
    case ApiRoute::kRebalance:
      return prepare_later(route, std::move(request), reply);
    case ApiRoute::kPlacement:
      if (!is_open_) throw ApiError(503, "", why_closed());
      return send_json(*reply, ranks_->text());
  }
}

void ApiService::prepare_later(ApiRoute route, HttpRequest request,
                               const std::shared_ptr<HttpReply>& reply) {
  const std::lock_guard lock(mutex_);
  const bool needs_engine = route != ApiRoute::kTokenize && route != ApiRoute::kDetokenize;
  if (needs_engine && !is_open_) throw ApiError(503, "", why_closed_);
  const size_t num_before = waiting_.size() + num_preparing_;
  const size_t num_bytes = request.body.size();
  const bool is_taken =
      num_before < static_cast<size_t>(options_.max_waiting) &&
      preparing_.post(num_bytes, [this, route, body = std::move(request.body), reply] {
        answer_errors(*reply, [&] { prepare(route, body, reply); });
        const std::lock_guard inner(mutex_);
        --num_preparing_;
        came_.notify_one();
      });
  if (is_taken) {
    ++num_preparing_;
    return;
  }
  throw ApiError(
      429, "",
      "there are already " + std::to_string(num_before) + " requests waiting; try again later");
}

// ---- The preparing thread ----------------------------------------------------------------

void ApiService::prepare(ApiRoute route, const std::string& body,
                         const std::shared_ptr<HttpReply>& reply) {
  if (reply->is_gone()) return;
  switch (route) {
    case ApiRoute::kTokenize:
      return send_json(*reply, tokenize_body(body, *model_.tokenizer, model_.max_context));
    case ApiRoute::kDetokenize:
      return send_json(*reply, detokenize_body(body, *model_.tokenizer));
    case ApiRoute::kCompletions:
      return complete(parse_completion_request(body), route, reply);
    case ApiRoute::kChat:
      return complete(parse_chat_request(body), route, reply);
    case ApiRoute::kScore:
      return complete(parse_score_request(body), route, reply);
    case ApiRoute::kRebalance:
      return rebalance(body, reply);
    case ApiRoute::kHealth:
    case ApiRoute::kVersion:
    case ApiRoute::kModels:
    case ApiRoute::kMetrics:
    case ApiRoute::kState:
    case ApiRoute::kStartProfile:
    case ApiRoute::kStopProfile:
    case ApiRoute::kPlacement:
      fail(ErrorKind::kInternal, "an endpoint that needs no preparation is prepared");
  }
}

void ApiService::complete(ApiRequest asked, ApiRoute route,
                          const std::shared_ptr<HttpReply>& reply) {
  auto job = std::make_shared<Job>();
  job->asked = std::move(asked);
  check_request(job->asked, model_.name, model_.vocab_size);
  job->who = new_identity(model_.name, route);
  job->sampling = sampling_of(job->asked.sampling, model_.sampling);
  if (!job->asked.sampling.seed) job->sampling.seed = std::random_device()();
  encode(*job);
  if (!job->asked.ignore_eos) job->end_ids = model_.eos_ids;
  const auto& more = job->asked.stop_token_ids;
  job->end_ids.insert(job->end_ids.end(), more.begin(), more.end());
  job->reply = reply;
  queue(std::move(job));
}

// What is too long, or has ids that are none, is refused here.
void ApiService::encode(Job& job) const {
  const ApiRequest& asked = job.asked;
  const Tokenizer& tokenizer = *model_.tokenizer;
  PromptBounds bounds{"prompt", model_.vocab_size, model_.max_context};
  if (!asked.messages.empty()) {
    bounds.field = "messages";
    job.prompts.push_back(chats_.ids_of(asked));
  } else if (!asked.candidates.empty()) {
    bounds.field = "document";
  }
  for (const ApiPrompt& prompt : asked.prompts) {
    job.prompts.push_back(prompt_ids_of(prompt, tokenizer));
  }
  for (const auto& ids : job.prompts) check_prompt_ids(ids, bounds);
  for (const ApiPrompt& candidate : asked.candidates) {
    const auto* text = std::get_if<std::string>(&candidate);
    if (text != nullptr) {
      job.candidates.push_back({.text = *text, .ids = tokenizer.encode(*text, false)});
      continue;
    }
    const auto& ids = std::get<std::vector<int32_t>>(candidate);
    job.candidates.push_back({.text = tokenizer.decode(ids, false), .ids = ids});
  }
  if (job.candidates.empty()) return;
  bounds.field = "candidates";
  check_candidates(job.candidates, static_cast<int64_t>(job.prompts.front().size()), bounds);
}

void ApiService::queue(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) throw ApiError(503, "", why_closed_);
  waiting_.push_back(std::move(job));
  came_.notify_one();
}

void ApiService::between_steps(std::shared_ptr<HttpReply> reply,
                               std::function<std::string()> work) {
  const std::lock_guard lock(mutex_);
  if (!is_open_) throw ApiError(503, "", why_closed_);
  tasks_.push_back({std::move(reply), std::move(work)});
  came_.notify_one();
}

int ApiService::num_queued() {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& job : waiting_) count += job->prompts.size() * static_cast<size_t>(job->asked.n);
  return static_cast<int>(count);
}

// ---- The engine's thread -----------------------------------------------------------------

std::vector<std::shared_ptr<ApiService::Job>> ApiService::take_jobs(bool may_wait) {
  std::unique_lock lock(mutex_);
  // Not for long: `is_over` is asked in between.
  const auto has_come = [this] { return !waiting_.empty() || !tasks_.empty() || asked_rebalance_; };
  if (may_wait) came_.wait_for(lock, std::chrono::milliseconds(50), has_come);
  return std::exchange(waiting_, {});
}

// Requests that were taken and are not yet live. Once it is false after is_open_ was, it stays so.
bool ApiService::has_more() {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() || !tasks_.empty() || num_preparing_ > 0 || ranks_->is_rebalancing();
}

void ApiService::run(Engine& engine, ExpertRanks& ranks, const std::function<bool()>& is_over) {
  ranks_ = &ranks;
  is_open_ = true;
  bool works = false;
  for (;;) {
    try {
      if (is_over()) is_open_ = false;
      const auto jobs = take_jobs(!works);
      run_tasks();
      for (const auto& job : jobs) begin(engine, job);
      cancel_gone(engine);
      begin_rebalance();
      works = step(engine);
      count_step(engine, works);
      std::erase_if(live_, [](const auto& job) { return job->num_ended == job->choices.size(); });
      if (!works && !is_open_ && jobs.empty() && !has_more()) break;
    } catch (const Error& error) {
      return go_down(engine, error, is_over);
    } catch (const std::exception& error) {
      is_open_ = false;
      end_all(503, error.what());
      throw;
    }
  }
  end_rebalances();
  end_profile([this] { profiles_.stop(); });
}

void ApiService::run_tasks() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) {
    answer_errors(*task.reply, [&] { send_json(*task.reply, task.work()); });
  }
}

void ApiService::count_step(const Engine& engine, bool has_worked) {
  if (!has_worked) return metrics_.idle(engine);
  metrics_.step_done(engine);
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
  {
    const std::lock_guard lock(mutex_);
    why_closed_ = error.what();
    is_open_ = false;
  }
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
    count_end(*raw, index, ended_because(reason, raw->is_gone), most);
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
  for (const auto& job : live_) {
    for (size_t i = 0; i < job->choices.size(); ++i) {
      if (job->choices[i].text->reason() != FinishReason::kNone) continue;
      count_end(*job, i, "error", job->asked.max_tokens.value_or(0));
    }
  }
  for (const auto& job : take_jobs(false)) job->fail(status, message);
  for (const auto& job : live_) {
    job->fail(status, message);
    job->is_gone = true;
  }
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) send_error(*task.reply, status, "", message);
}

// ---- Ranks ---------------------------------------------------------------------------------

void ApiService::health(HttpReply& reply) {
  if (is_open_) return send_json(reply, health_body(ranks_->state().lost));
  send_error(reply, 503, "", why_closed());
}

std::string ApiService::why_closed() {
  const std::lock_guard lock(mutex_);
  return why_closed_;
}

void ApiService::rebalance(const std::string& placement, const std::shared_ptr<HttpReply>& reply) {
  if (!is_open_) throw ApiError(503, "", why_closed());
  Placement next = ranks_->parse(placement);
  const std::lock_guard lock(mutex_);
  if (has_ended_) throw ApiError(503, "", why_closed_);
  if (asked_rebalance_) throw ApiError(409, "", kIsRebalancing);
  asked_rebalance_.emplace(Rebalance{std::move(next), reply});
}

void ApiService::begin_rebalance() {
  const std::lock_guard lock(mutex_);
  if (!asked_rebalance_) return;
  const auto reply = asked_rebalance_->reply;
  if (profiles_.is_active()) {  // both ask the workers, who answer each when it is ready
    asked_rebalance_.reset();
    return send_error(*reply, 409, "", "a profile is under way; stop it first");
  }
  const bool begins =
      ranks_->rebalance(std::move(asked_rebalance_->next), [reply](const RebalanceResult& result) {
        if (!result.error) return send_json(*reply, rebalance_body(result));
        send_error(*reply, status_of(result.error->kind), "", result.error->message);
      });
  asked_rebalance_.reset();
  if (!begins) send_error(*reply, 409, "", kIsRebalancing);
}

// Of a server that ends.
void ApiService::end_rebalances() {
  const std::lock_guard lock(mutex_);
  if (asked_rebalance_) send_error(*asked_rebalance_->reply, 503, "", why_closed_);
  asked_rebalance_.reset();
}

}  // namespace colibri
