#include "launch/serving_bench.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "launch/model_text.h"
#include "launch/process_clock.h"
#include "launch/serving_answer.h"
#include "launch/serving_client.h"
#include "launch/serving_load.h"
#include "launch/serving_report.h"
#include "launch/standard_out.h"

namespace colibri {
namespace {

using json = nlohmann::json;

constexpr double kAskTimeoutS = 30;  // of the small endpoints
constexpr size_t kMaxSmallBytes = size_t{16} << 20;
constexpr size_t kMinIds = 32;  // fewer different ones make no random prompt

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// What the whole run talks to.
class Server {
 public:
  explicit Server(const RunConfig& config)
      : options_(config.serving_bench),
        is_chat_(options_.endpoint == "chat"),
        model_(config.common.model),
        client_(make_serving_client(parse_server_url(options_.url))) {}

  struct Answer {
    int status = 0;  // 0: none
    std::string body, error;
  };
  // One small question, waited for.
  Answer ask(const std::string& method, const std::string& path, const std::string& body = "");
  void choose_model();
  // Ordinary ids of the server's tokenizer; none where it does not tell.
  std::vector<int32_t> some_ids();
  // Calls `on_end` inside client().run().
  void send(const LoadPrompt& prompt, std::function<void(ServedRequest)> on_end);

  const std::string& model() const { return model_; }
  ServingClient& client() { return *client_; }

 private:
  std::string body_of(const LoadPrompt& prompt) const;

  const ServingBenchOptions& options_;
  bool is_chat_;
  std::string model_;
  std::unique_ptr<ServingClient> client_;
};

Server::Answer Server::ask(const std::string& method, const std::string& path,
                           const std::string& body) {
  Answer answer;
  client_->send({.method = method,
                 .path = path,
                 .body = body,
                 .api_key = options_.api_key,
                 .timeout_s = std::min<double>(kAskTimeoutS, options_.request_timeout_s)},
                {.on_status = [&](int status) { answer.status = status; },
                 .on_body =
                     [&](std::string_view bytes) {
                       answer.body += bytes;
                       return answer.body.size() <= kMaxSmallBytes;
                     },
                 .on_end = [&](const std::string& error) { answer.error = error; }});
  client_->run();
  return answer;
}

void Server::choose_model() {
  const Answer answer = ask("GET", "/v1/models");
  if (answer.status == 0) {
    fail(ErrorKind::kEnvironment, options_.url, " does not answer: ", answer.error,
         "; start the server first, and look at host and port");
  }
  if (!model_.empty()) return;
  const json list = json::parse(answer.body, nullptr, false);
  const json first = answer.status == 200 && list.is_object() && list.contains("data") &&
                             list["data"].is_array() && !list["data"].empty()
                         ? list["data"][0]
                         : json();
  if (!first.is_object() || !first.contains("id") || !first["id"].is_string()) {
    fail(ErrorKind::kEnvironment, options_.url, "/v1/models answers ", answer.status, " ",
         error_message_of(answer.body), ", want a list of models; give --model NAME",
         answer.status == 401 ? ", or --api-key KEY" : "");
  }
  model_ = first["id"].get<std::string>();
}

std::vector<int32_t> Server::some_ids() {
  const json question = {
      {"model", model_}, {"prompt", sample_text()}, {"add_special_tokens", false}};
  const Answer answer = ask("POST", "/tokenize", dumped(question));
  const json object = json::parse(answer.body, nullptr, false);
  if (answer.status != 200 || !object.is_object() || !object.contains("tokens")) return {};
  std::vector<int32_t> ids;
  for (const json& id : object["tokens"]) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return {};
    ids.push_back(id.get<int32_t>());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids.size() < kMinIds ? std::vector<int32_t>{} : ids;
}

std::string Server::body_of(const LoadPrompt& prompt) const {
  json body = {{"model", model_},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"temperature", 0}};
  if (is_chat_) {
    body["messages"] = json::array({{{"role", "user"}, {"content", prompt.text}}});
    body["max_completion_tokens"] = prompt.max_tokens;
  } else {
    body["prompt"] = prompt.ids.empty() ? json(prompt.text) : json(prompt.ids);
    body["max_tokens"] = prompt.max_tokens;
  }
  if (options_.ignore_eos) body["ignore_eos"] = true;
  return dumped(body);
}

void Server::send(const LoadPrompt& prompt, std::function<void(ServedRequest)> on_end) {
  const auto answer = std::make_shared<ServingAnswer>();
  const double start = client_->now_s();
  client_->send({.method = "POST",
                 .path = is_chat_ ? "/v1/chat/completions" : "/v1/completions",
                 .body = body_of(prompt),
                 .api_key = options_.api_key,
                 .timeout_s = static_cast<double>(options_.request_timeout_s)},
                {.on_status = [answer](int status) { answer->on_status(status); },
                 .on_body =
                     [this, answer, start](std::string_view bytes) {
                       return answer->on_body(client_->now_s() - start, bytes);
                     },
                 .on_end = [answer, on_end = std::move(on_end)](
                               const std::string& error) { on_end(answer->end(error)); }});
}

// One load: requests leave at their times, or when there is room below the bound.
class LoadRun {
 public:
  LoadRun(Server& server, const std::vector<LoadPrompt>& prompts, int max_concurrency)
      : server_(server), prompts_(prompts), max_concurrency_(max_concurrency) {}

  ServingFigures run(const std::vector<double>& times);

 private:
  void begin_next();
  void on_end(ServedRequest request);
  void tell() const;

  Server& server_;
  const std::vector<LoadPrompt>& prompts_;
  int max_concurrency_;
  std::deque<size_t> due_;
  int num_under_way_ = 0;
  double told_s_ = 0, end_s_ = 0;
  std::vector<ServedRequest> ended_;
};

ServingFigures LoadRun::run(const std::vector<double>& times) {
  const double start = told_s_ = server_.client().now_s();
  for (size_t i = 0; i < prompts_.size(); ++i) {
    server_.client().at(start + times[i], [this, i] {
      due_.push_back(i);
      begin_next();
    });
  }
  server_.client().run();
  return figures_of(ended_, end_s_ - start);
}

void LoadRun::begin_next() {
  if (due_.empty() || (max_concurrency_ > 0 && num_under_way_ >= max_concurrency_)) return;
  const size_t index = due_.front();
  due_.pop_front();
  ++num_under_way_;
  server_.send(prompts_[index], [this](ServedRequest request) { on_end(std::move(request)); });
}

void LoadRun::on_end(ServedRequest request) {
  --num_under_way_;
  ended_.push_back(std::move(request));
  end_s_ = server_.client().now_s();
  if (end_s_ - told_s_ > 5 && ended_.size() < prompts_.size()) {
    told_s_ = end_s_;
    std::fprintf(stderr, "colibri: %zu of %zu requests ended\n", ended_.size(), prompts_.size());
  }
  begin_next();
}

class ServingBench {
 public:
  explicit ServingBench(const RunConfig& config)
      : config_(config), options_(config.serving_bench), server_(config) {}

  int run();

 private:
  void prepare();
  bool is_served(const LoadPrompt& prompt, std::string& reason);
  std::vector<LoadPrompt> prompts_of_run(size_t run_idx) const;
  ServingFacts facts() const;
  void write_files(const std::vector<ServingRun>& runs) const;

  const RunConfig& config_;
  const ServingBenchOptions& options_;
  Server server_;
  std::vector<int32_t> ids_;
  std::vector<LoadPrompt> dataset_;
};

// Every run of a sweep has prompts of its own, else the later ones would find them in the server's
// cache.
std::vector<LoadPrompt> ServingBench::prompts_of_run(size_t run_idx) const {
  const auto count = static_cast<size_t>(options_.num_prompts);
  if (dataset_.empty()) {
    const RandomLengths lengths{.prompt_tokens = options_.random_input_len,
                                .new_tokens = options_.random_output_len,
                                .range_ratio = options_.random_range_ratio};
    return random_prompts(lengths, options_.num_prompts, options_.seed + run_idx, ids_);
  }
  std::vector<LoadPrompt> prompts;
  for (size_t i = 0; i < count; ++i) {
    prompts.push_back(dataset_[(run_idx * count + i) % dataset_.size()]);
  }
  return prompts;
}

bool ServingBench::is_served(const LoadPrompt& prompt, std::string& reason) {
  server_.send(prompt, [&](const ServedRequest& request) { reason = request.error; });
  server_.client().run();
  return reason.empty();
}

// A server that does not serve one request is told so before the load, with its reason.
void ServingBench::prepare() {
  if (!options_.dataset.empty()) {
    dataset_ = parse_dataset(read_text_of(options_.dataset, "--dataset"), options_.dataset,
                             options_.output_len);
    const bool has_ids = std::any_of(dataset_.begin(), dataset_.end(),
                                     [](const LoadPrompt& prompt) { return !prompt.ids.empty(); });
    if (has_ids && options_.endpoint == "chat") {
      fail(ErrorKind::kInput, options_.dataset,
           " holds token ids, which --endpoint chat takes not");
    }
  }
  server_.choose_model();
  if (dataset_.empty() && options_.endpoint == "completions") ids_ = server_.some_ids();
  LoadPrompt first;
  first.max_tokens = 2;
  if (ids_.empty()) first.text = "Hello";
  if (!ids_.empty()) first.ids.assign(ids_.begin(), ids_.begin() + 4);
  std::string reason;
  if (is_served(first, reason)) return;
  if (!ids_.empty()) {
    ids_.clear();
    if (is_served({.text = "Hello", .ids = {}, .max_tokens = 2}, reason)) return;
  }
  fail(ErrorKind::kEnvironment, options_.url, " does not serve a first small request to /v1/",
       options_.endpoint == "chat" ? "chat/completions" : "completions", ": ", reason);
}

// A key is not for files.
std::string without_key(std::string command, const std::string& key) {
  for (size_t at = 0; !key.empty() && (at = command.find(key, at)) != command.npos;) {
    command.replace(at, key.size(), "KEY");
    at += 3;
  }
  return command;
}

ServingFacts ServingBench::facts() const {
  const std::string random = ids_.empty() ? "random words" : "random token ids";
  return {.url = options_.url,
          .model = server_.model(),
          .endpoint = options_.endpoint,
          .prompts = dataset_.empty() ? random : options_.dataset,
          .seed = options_.seed,
          .version = kVersion,
          .date = today(),
          .command = without_key(config_.command, options_.api_key)};
}

void write_file(const std::string& path, const std::string& text, const std::string& option) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, option, " ", path, " cannot be written");
}

void ServingBench::write_files(const std::vector<ServingRun>& runs) const {
  if (!options_.out.empty()) write_file(options_.out, serving_json(facts(), runs), "--out");
  if (!options_.svg.empty()) write_file(options_.svg, serving_svg(facts(), runs), "--svg");
}

int ServingBench::run() {
  prepare();
  std::vector<ServingRun> runs;
  const std::string& format = config_.bench.format;
  for (const double rate : request_rates(options_)) {
    for (const int bound : options_.max_concurrency) {
      const std::vector<LoadPrompt> prompts = prompts_of_run(runs.size());
      ServingRun one{.request_rate = rate,
                     .max_concurrency = bound,
                     .num_prompts = options_.num_prompts,
                     .figures = {}};
      one.figures = LoadRun(server_, prompts, bound)
                        .run(arrival_times(one.num_prompts, rate, options_.seed + runs.size()));
      if (format == "md") write_out(serving_block(one));
      runs.push_back(std::move(one));
      write_files(runs);
    }
  }
  if (format == "json") write_out(serving_json(facts(), runs));
  if (format == "csv") write_out(serving_csv(runs));
  for (const ServingRun& one : runs) {
    if (one.figures.num_served > 0) continue;
    fail(ErrorKind::kEnvironment, "no request was served at request rate ",
         rate_text(one.request_rate), ": ", one.figures.errors.begin()->first);
  }
  return 0;
}

}  // namespace

int serving_bench(const RunConfig& config) { return ServingBench(config).run(); }

}  // namespace colibri
