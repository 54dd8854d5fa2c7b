#include "coordinator/api_service.h"

#include <random>

#include "base/error.h"
#include "coordinator/api_job.h"
#include "coordinator/api_routes.h"
#include "coordinator/measured_reply.h"
#include "coordinator/page.h"

namespace colibri {
namespace {

constexpr size_t kMaxPreparingBytes = size_t{64} << 20;  // of bodies that are not read yet

}  // namespace

ApiService::ApiService(ApiModel model, ApiOptions options)
    : model_(std::move(model)),
      options_(std::move(options)),
      chats_(*model_.tokenizer, model_.name),
      metrics_({.model = model_.name,
                .max_context = model_.max_context,
                .shows_experts = options_.shows_experts,
                .log = options_.log}),
      profiles_(options_.profile_dir),
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
    case ApiRoute::kPage:
      return send_page(*reply);
    case ApiRoute::kIcon:
      return send_no_icon(*reply);
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
      state.has_chat_template = chats_.has_template();
      const std::string query = "&" + request.query + "&";
      return send_json(*reply, state_body(state, query.find("&experts=1&") != query.npos));
    }
    case ApiRoute::kStartProfile:
      profiles_.check_is_on();
      return between_steps(reply, [this, asked = parse_profile_request(request.body)] {
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
    case ApiRoute::kPage:
    case ApiRoute::kIcon:
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

void ApiService::health(HttpReply& reply) {
  if (!is_open_) return send_error(reply, 503, "", why_closed());
  const ExpertRanksState ranks = ranks_->state();
  if (!ranks.is_recovering) return send_json(reply, health_body(ranks.lost));
  send_error(reply, 503, "", "no step can run: the experts of a lost rank are being read");
}

std::string ApiService::why_closed() {
  const std::lock_guard lock(mutex_);
  return why_closed_;
}

void ApiService::rebalance(const std::string& placement, const std::shared_ptr<HttpReply>& reply) {
  Placement next = ranks_->parse(placement);
  const std::lock_guard lock(mutex_);
  if (!is_open_) throw ApiError(503, "", why_closed_);
  if (asked_rebalance_) throw ApiError(409, "", "a rebalance is under way; try again later");
  asked_rebalance_.emplace(Rebalance{std::move(next), reply});
}

}  // namespace colibri
