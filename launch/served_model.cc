#include "launch/served_model.h"

#include <signal.h>

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "launch/device_choice.h"
#include "launch/local_ranks.h"
#include "launch/model_text.h"
#include "launch/prompts.h"
#include "launch/session_setup.h"

namespace colibri {
namespace {

// Threads started meanwhile inherit it: signals are the host program's.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// What is in flight in a catch block.
Error caught_error() {
  try {
    throw;
  } catch (const Error& error) {
    return Error(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kEnvironment, "out of memory");
  } catch (const std::system_error& error) {
    return Error(ErrorKind::kEnvironment, error.what());
  } catch (const std::exception& error) {
    return Error(ErrorKind::kInternal, std::string("a bug of ours: ") + error.what());
  }
}

}  // namespace

// ---- Ticket -----------------------------------------------------------------------------------

Ticket::Ticket(Request request, const Tokenizer* tokenizer, const std::vector<std::string>& stops,
               int64_t id)
    : id_(id),
      num_prompt_ids_(static_cast<int64_t>(request.prompt_ids.size())),
      request_(std::move(request)),
      answer_(tokenizer, stops, [this](const std::string& text) { new_text_ += text; }) {
  request_.on_token = [this](int32_t token) { return take_token(token); };
  request_.on_end = [this](FinishReason reason) { end(reason); };
}

Ticket::Piece Ticket::next(const std::optional<Clock::time_point>& deadline) {
  std::unique_lock lock(mutex_);
  const auto has_come = [this] { return !piece_.ids.empty() || !piece_.text.empty() || is_over_; };
  if (deadline) {
    changed_.wait_until(lock, *deadline, has_come);
  } else {
    changed_.wait(lock, has_come);
  }
  Piece piece = std::exchange(piece_, {});
  piece.is_last = is_over_;
  return piece;
}

void Ticket::begin(Engine& engine) {
  if (is_unwanted_) return end(FinishReason::kCancelled);
  try {
    engine_number_ = engine.add(std::move(request_));
  } catch (const Error& error) {
    end(FinishReason::kNone, error);
  }
}

void Ticket::cancel_if_unwanted(Engine& engine) {
  if (is_unwanted_ && !is_over_) engine.cancel(engine_number_);
}

bool Ticket::take_token(int32_t id) {
  const bool goes_on = answer_.push(id);
  {
    const std::lock_guard lock(mutex_);
    piece_.ids.push_back(id);
    piece_.text += std::exchange(new_text_, {});
  }
  changed_.notify_all();
  return goes_on && !is_unwanted_;
}

// The caller may be gone with the last reference but one, which the model holds.
void Ticket::end(FinishReason reason, std::optional<Error> error) {
  if (is_over_) return;
  answer_.finish();
  {
    const std::lock_guard lock(mutex_);
    piece_.text += std::exchange(new_text_, {});
    // A token that came after cancel() ends the sequence as a stop text would.
    reason_ = is_unwanted_ && reason == FinishReason::kStop ? FinishReason::kCancelled : reason;
    error_ = std::move(error);
    is_over_ = true;
  }
  changed_.notify_all();
}

// ---- ServedModel ------------------------------------------------------------------------------

ServedModel::ServedModel(CommonOptions options, Logger log)
    : options_(std::move(options)), log_(std::move(log)) {
  try {
    const AllSignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    colibri::fail(ErrorKind::kEnvironment, "cannot start the engine's thread: ", error.what());
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_ready_ || failure_; });
  if (is_ready_) return;
  lock.unlock();
  thread_.join();
  throw Error(*failure_);
}

ServedModel::~ServedModel() { close(); }

void ServedModel::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool ServedModel::is_running() const {
  const std::lock_guard lock(mutex_);
  return !failure_ && !is_closing_;
}

int ServedModel::num_ranks() const { return std::max(options_.ranks, 1); }

int ServedModel::max_batch() const {
  return options_.max_batch > 0 ? options_.max_batch : kDefaultMaxBatch;
}

void ServedModel::submit(const std::shared_ptr<Ticket>& ticket) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return ticket->end(FinishReason::kCancelled, failure_);
    if (is_closing_) return ticket->end(FinishReason::kCancelled);
    tickets_.push_back(ticket);
    new_.push_back(ticket);
  }
  changed_.notify_all();
}

int ServedModel::cancel(int64_t id) {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const auto& ticket : tickets_) {
    if (ticket->id() != id) continue;
    ticket->cancel();
    ++count;
  }
  return count;
}

// ---- The engine's thread ----------------------------------------------------------------------

void ServedModel::run() {
  try {
    run_local_ranks(options_, num_ranks(),
                    [this](RankContext& context) { return run_rank(context); });
  } catch (...) {
    fail(caught_error());
  }
}

// What leaves a worker goes to the log; rank 0's ends the engine.
int ServedModel::run_rank(RankContext& context) {
  context.log = log_;
  context.progress.is_terminal = false;
  context.progress.write = [this](std::string_view text) {
    log_->info("{}", text.substr(0, text.find('\n')));
  };
  try {
    context.device = choose_device(options_, context);
    return run_session(
        options_, context,
        [&](const Checkpoint& checkpoint) { return prepare(context, checkpoint); }, {},
        [this](ModelSession&, Serving& serving) { return serve(serving.engine); });
  } catch (...) {
    if (context.is_root()) throw;
    const Error error = caught_error();
    log_->info("rank {}: {}", context.rank, error.what());
    return exit_code(error.kind());
  }
}

SessionNeeds ServedModel::prepare(RankContext& context, const Checkpoint& checkpoint) {
  const PromptSet defaults = read_answer_defaults({}, checkpoint);
  for (const std::string& warning : defaults.warnings) context.log->warn("{}", warning);
  facts_.sampling = defaults.sampling;
  facts_.eos_ids = defaults.eos_ids;
  facts_.vocab_size = checkpoint.config().vocab_size;
  facts_.max_context = context_limit(options_, checkpoint.config());
  if (checkpoint.text("tokenizer.json")) facts_.tokenizer = load_tokenizer(checkpoint);
  if (facts_.tokenizer && !facts_.tokenizer->chat_template().empty()) {
    try {
      facts_.chat_template.emplace(facts_.tokenizer->chat_template());
    } catch (const Error& error) {
      facts_.chat_template_error = error;  // texts can be answered all the same
    }
  }
  return {.max_context = facts_.max_context, .num_sequences = max_batch(), .shares_prefixes = true};
}

int ServedModel::serve(Engine& engine) {
  {
    const std::lock_guard lock(mutex_);
    is_ready_ = true;
  }
  changed_.notify_all();
  try {
    while (take_tickets(engine)) {
      for (const auto& ticket : live_) ticket->cancel_if_unwanted(engine);
      engine.step();
    }
  } catch (...) {
    fail(caught_error());  // at once: the other ranks may take their time to leave
    throw;
  }
  engine.cancel_all();
  end_all(FinishReason::kCancelled, {});
  return 0;
}

// Waits while there is nothing to do; false when the model closes.
bool ServedModel::take_tickets(Engine& engine) {
  const auto is_over = [](const auto& ticket) { return ticket->is_over(); };
  const auto num_ended = std::erase_if(live_, is_over);
  std::vector<std::shared_ptr<Ticket>> fresh;
  {
    std::unique_lock lock(mutex_);
    if (num_ended > 0) std::erase_if(tickets_, is_over);
    if (live_.empty()) changed_.wait(lock, [this] { return !new_.empty() || is_closing_; });
    if (is_closing_) return false;
    fresh = std::exchange(new_, {});
  }
  for (const auto& ticket : fresh) {
    live_.push_back(ticket);
    ticket->begin(engine);
  }
  return true;
}

void ServedModel::end_all(FinishReason reason, const std::optional<Error>& error) {
  std::vector<std::shared_ptr<Ticket>> left;
  {
    const std::lock_guard lock(mutex_);
    left = std::exchange(tickets_, {});
    new_.clear();
  }
  for (const auto& ticket : left) ticket->end(reason, error);
  live_.clear();
}

void ServedModel::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
  }
  changed_.notify_all();
  end_all(FinishReason::kCancelled, error);
}

}  // namespace colibri
