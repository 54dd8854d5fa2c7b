// A model that answers from a thread of its own, for programs that colibri is part of: requests
// come from any thread, and run together in the steps of one engine.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "coordinator/answer.h"
#include "coordinator/engine.h"
#include "coordinator/request.h"
#include "launch/model_session.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "model/chat_template.h"
#include "model/tokenizer.h"

namespace colibri {

// One request under way. Its caller waits on it while the engine's thread fills it.
class Ticket {
 public:
  using Clock = std::chrono::steady_clock;

  // `tokenizer` (null: no text) outlives it. The request's callbacks are set here.
  Ticket(Request request, const Tokenizer* tokenizer, const std::vector<std::string>& stops,
         int64_t id);

  struct Piece {
    std::string text;
    std::vector<int32_t> ids;
    bool is_last = false;
  };
  // Waits for what is new, or until `deadline`: then the piece is empty.
  Piece next(const std::optional<Clock::time_point>& deadline);
  // The engine's thread sees it before its next step.
  void cancel() { is_unwanted_ = true; }
  int64_t id() const { return id_; }

  // After the last piece.
  FinishReason reason() const { return reason_; }
  const std::optional<Error>& error() const { return error_; }
  const Answer& answer() const { return answer_; }
  int64_t num_prompt_ids() const { return num_prompt_ids_; }

  // The engine's thread.
  void begin(Engine& engine);
  void cancel_if_unwanted(Engine& engine);
  void end(FinishReason reason, std::optional<Error> error = {});
  bool is_over() const { return is_over_; }

 private:
  bool take_token(int32_t id);

  const int64_t id_;
  const int64_t num_prompt_ids_;
  std::atomic<bool> is_unwanted_ = false;
  Request request_;  // until it is the engine's
  int engine_number_ = -1;
  Answer answer_;
  std::string new_text_;  // of the engine's thread

  std::mutex mutex_;
  std::condition_variable changed_;
  Piece piece_;  // not yet taken
  bool is_over_ = false;
  FinishReason reason_ = FinishReason::kNone;
  std::optional<Error> error_;
};

// What a model's own files say, fixed once it is loaded.
struct ServedFacts {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: only ids
  std::optional<ChatTemplate> chat_template;
  std::optional<Error> chat_template_error;  // why there is none although the model has one
  SamplingParams sampling;                   // where a request says nothing
  std::vector<int32_t> eos_ids;
  int64_t vocab_size = 0, max_context = 0;
};

class ServedModel {
 public:
  // Loads it on options.ranks threads. `log` serves all ranks, from their threads. Errors: those of
  // ModelSession, and kEnvironment where no thread can be started.
  ServedModel(CommonOptions options, Logger log);
  ~ServedModel();  // as close()
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  const ServedFacts& facts() const { return facts_; }
  bool is_running() const;
  int num_ranks() const;
  int max_batch() const;  // requests that run at once

  // From any thread. A ticket that comes too late, or after a step failed, ends at once.
  void submit(const std::shared_ptr<Ticket>& ticket);
  // How many tickets under way have this id.
  int cancel(int64_t id);
  // Ends every ticket as cancelled, and the ranks. Once.
  void close();

 private:
  void run();
  int run_rank(RankContext& context);
  SessionNeeds prepare(RankContext& context, const Checkpoint& checkpoint);
  int serve(Engine& engine);
  bool take_tickets(Engine& engine);
  void end_all(FinishReason reason, const std::optional<Error>& error);
  void fail(const Error& error);

  const CommonOptions options_;
  const Logger log_;
  ServedFacts facts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ready_ = false, is_closing_ = false;
  std::optional<Error> failure_;                  // no step runs any more
  std::vector<std::shared_ptr<Ticket>> tickets_;  // all under way
  std::vector<std::shared_ptr<Ticket>> new_;      // of these, those the engine has not seen

  std::vector<std::shared_ptr<Ticket>> live_;  // of the engine's thread
  std::thread thread_;
};

}  // namespace colibri
