// Requests of OpenAI's API on their way through the engine: taken on the server's thread, read and
// encoded on one of the service's own, run and answered on the engine's. Their order is kept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/api_request.h"
#include "coordinator/api_response.h"
#include "coordinator/chat_prompts.h"
#include "coordinator/engine.h"
#include "coordinator/expert_ranks.h"
#include "coordinator/http_server.h"
#include "coordinator/profile_service.h"
#include "coordinator/serving_metrics.h"
#include "coordinator/task_thread.h"
#include "model/tokenizer.h"

namespace colibri {

enum class ApiRoute : uint8_t;

struct ApiModel {
  std::string name;
  std::string version;  // of colibri
  const Tokenizer* tokenizer = nullptr;
  SamplingParams sampling;  // where a request says nothing
  std::vector<int32_t> eos_ids;
  int64_t vocab_size = 0;
  int64_t max_context = 0;
};

struct ApiOptions {
  std::string api_key;                                    // "": none is asked for
  int max_waiting = 256;                                  // requests taken and not yet begun
  bool shows_experts = false;                             // as MetricsOptions
  std::function<void(const std::string& line)> log = {};  // likewise
  std::string profile_dir = {};  // below which profiles are written; "": there are none
};

// What requests run on.
struct ApiEngine {
  Engine& engine;
  ExpertRanks& ranks;
  RankTracer& tracer;
  // Called on the engine's thread after each step; may be empty.
  std::function<void()> after_step = {};
};

class ApiService {
 public:
  // Until run() requests are refused with 503, for the model is being loaded. What the model points
  // to outlives it. Errors: those of the model's chat template.
  ApiService(ApiModel model, ApiOptions options);
  ~ApiService();

  // On the server's thread: answers what takes no time, leaves the rest to the other threads. Too
  // many requests that are not begun, or too many bytes that are not read, are refused with 429.
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply);

  // On the engine's thread, once: runs requests until `is_over` says so and all that were taken are
  // answered. After the loss of a rank requests go on once `ranks` has recovered, with the same
  // tokens. Where it cannot, every request is answered with 503 and the reason, those that are
  // still to come too, until `is_over`; then the error is thrown. Other errors of the engine end
  // every request with 503 and are thrown on.
  void run(const ApiEngine& parts, const std::function<bool()>& is_over);

  ServingMetrics& metrics() { return metrics_; }

 private:
  struct Job;
  struct Choice;
  struct Rebalance {
    Placement next;
    std::shared_ptr<HttpReply> reply;
  };
  // For the engine's thread, between two steps; its result is the answer.
  struct Task {
    std::shared_ptr<HttpReply> reply;
    std::function<std::string()> work;
  };

  template <class Work>
  static void answer_errors(HttpReply& reply, Work&& work);
  void route(HttpRequest request, const std::shared_ptr<HttpReply>& reply);
  void prepare_later(ApiRoute route, HttpRequest request, const std::shared_ptr<HttpReply>& reply);
  void prepare(ApiRoute route, const std::string& body, const std::shared_ptr<HttpReply>& reply);
  void complete(ApiRequest asked, ApiRoute route, const std::shared_ptr<HttpReply>& reply);
  void encode(Job& job) const;
  void queue(std::shared_ptr<Job> job);
  int num_queued();
  void between_steps(std::shared_ptr<HttpReply> reply, std::function<std::string()> work);
  void run_tasks();
  void count_step(const Engine& engine, bool has_worked);
  void end_profile(const std::function<void()>& how);
  void count_end(const Job& job, size_t index, const char* reason, int64_t max_tokens);
  std::vector<std::shared_ptr<Job>> take_jobs(bool may_wait);
  bool has_more();
  void begin(Engine& engine, const std::shared_ptr<Job>& job);
  Request request_of(const std::shared_ptr<Job>& job, size_t choice_idx);
  void cancel_gone(Engine& engine);
  void close(const std::string& why);
  void end_all(int status, const std::string& message);
  bool step(Engine& engine);
  void go_down(Engine& engine, const Error& error, const std::function<bool()>& is_over);
  void rebalance(const std::string& placement, const std::shared_ptr<HttpReply>& reply);
  void begin_rebalance();
  void end_rebalances();
  void health(HttpReply& reply);
  std::string why_closed();

  ApiModel model_;
  ApiOptions options_;
  ChatPrompts chats_;
  ServingMetrics metrics_;
  ProfileService profiles_;
  std::atomic<bool> is_open_ = false;  // steps can run
  ExpertRanks* ranks_ = nullptr;       // while it runs
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::shared_ptr<Job>> waiting_;  // not yet begun
  size_t num_preparing_ = 0;                   // taken and not yet among those
  bool has_ended_ = false;                     // nothing will be begun any more
  std::optional<Rebalance> asked_rebalance_;
  std::string why_closed_ = "no step can run: the model is being loaded";
  std::vector<Task> tasks_;
  std::list<std::shared_ptr<Job>> live_;  // of the engine's thread
  TaskThread preparing_;                  // ends before what it uses
};

}  // namespace colibri
