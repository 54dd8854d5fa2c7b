// The functions of colibri.h: no exception and no C++ type gets past this file.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "launch/c_api_structs.h"
#include "launch/colibri.h"
#include "launch/served_model.h"

struct colibri_engine {
  explicit colibri_engine(const colibri_options& options)
      : model(colibri::common_options_of(options),
              colibri::make_logger_of(options, [this](const auto& log) { call_back(log); })) {}

  bool is_mine() const { return owner == getpid(); }
  bool is_in_callback() {
    const std::lock_guard lock(mutex);
    return in_callback.contains(std::this_thread::get_id());
  }
  // Runs code of the host program, marking the thread meanwhile.
  void call_back(const std::function<void()>& code) {
    const auto mark = [this](bool begins) {
      const std::lock_guard lock(mutex);
      const auto id = std::this_thread::get_id();
      if (begins) {
        in_callback.insert(id);
      } else {
        in_callback.erase(in_callback.find(id));
      }
    };
    mark(true);
    const std::unique_ptr<const decltype(mark), void (*)(const decltype(mark)*)> unmark(
        &mark, [](const decltype(mark)* end) { (*end)(false); });
    code();
  }

  const pid_t owner = getpid();
  std::mutex mutex;
  std::condition_variable left;
  int num_calls = 0;
  bool is_freed = false;
  std::multiset<std::thread::id> in_callback;
  colibri::ServedModel model;  // the last: its threads use the others
};

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

// An outcome that is no failure of colibri's, but no success either.
struct Outcome {
  int code = COLIBRI_OK;
  std::string text = {};
};

// Fails with this code, which no ErrorKind has.
struct StateError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Runs `work` and tells what came of it. Takes no memory for an error it tells of.
template <class Work>
int guarded(colibri_error* error, const Work& work) {
  try {
    if (error != nullptr) {
      checked_size(error, "colibri_error", StructForm<colibri_error>::kLeast, sizeof *error);
    }
  } catch (...) {
    return COLIBRI_INPUT;
  }
  const auto told = [error](int code, const char* text) {
    write_error(error, code, text);
    return code;
  };
  try {
    const Outcome outcome = work();
    return told(outcome.code, outcome.text.c_str());
  } catch (const Error& failure) {
    return told(code_of(failure.kind()), failure.what());
  } catch (const StateError& failure) {
    return told(COLIBRI_STATE, failure.what());
  } catch (const std::bad_alloc&) {
    return told(COLIBRI_ENVIRONMENT, "out of memory");
  } catch (const std::exception& failure) {
    return told(COLIBRI_INTERNAL, failure.what());
  } catch (...) {
    return told(COLIBRI_INTERNAL, "a callback threw");
  }
}

// One call of the host program on an engine, which is not freed before it ends.
class Call {
 public:
  explicit Call(colibri_engine* engine) : engine_(engine) {
    if (engine == nullptr) fail(ErrorKind::kInput, "the engine is NULL");
    if (!engine->is_mine()) throw StateError("the engine belongs to the process that forked this");
    const std::lock_guard lock(engine->mutex);
    if (engine->is_freed) throw StateError("the engine is being freed");
    ++engine->num_calls;
  }
  ~Call() {
    const std::lock_guard lock(engine_->mutex);
    if (--engine_->num_calls == 0) engine_->left.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  colibri_engine& operator*() const { return *engine_; }

 private:
  colibri_engine* const engine_;
};

// The host program's side of a request that runs.
struct Receiver {
  colibri_piece_fn on_piece = nullptr;  // null: only the result is wanted
  void* user = nullptr;
};

// True to go on.
bool hand_out(colibri_engine& engine, const Receiver& receiver, const Ticket::Piece& piece) {
  const colibri_piece told = {.struct_size = sizeof told,
                              .text = piece.text.c_str(),
                              .text_bytes = piece.text.size(),
                              .ids = piece.ids.data(),
                              .num_ids = piece.ids.size()};
  int answer = 0;
  engine.call_back([&] { answer = receiver.on_piece(receiver.user, &told); });
  return answer == 0;
}

struct RequestRun {
  colibri_engine& engine;
  const colibri_request request;
  const Receiver receiver;
  const Clock::time_point start = Clock::now();

  bool is_stopped = false;  // by the callback
  bool is_timed_out = false;
  std::shared_ptr<Ticket> ticket = {};

  void run();
  void take_pieces();
  Outcome outcome() const;
  colibri_result result() const;
};

void RequestRun::run() {
  const ServedFacts& facts = engine.model.facts();
  std::vector<std::string> stops = stops_of(request, facts);
  ticket = std::make_shared<Ticket>(request_of(request, facts), facts.tokenizer.get(), stops,
                                    request.id);
  engine.model.submit(ticket);
  try {
    take_pieces();
  } catch (...) {
    ticket->cancel();
    throw;
  }
}

void RequestRun::take_pieces() {
  std::optional<Clock::time_point> deadline;
  if (request.timeout_ms > 0) deadline = start + std::chrono::milliseconds(request.timeout_ms);
  for (;;) {
    const Ticket::Piece piece = ticket->next(deadline);
    const bool is_new = !piece.ids.empty() || !piece.text.empty();
    if (is_new && receiver.on_piece != nullptr && !is_stopped) {
      is_stopped = !hand_out(engine, receiver, piece);
      if (is_stopped) ticket->cancel();
    }
    if (piece.is_last) return;
    if (!deadline || Clock::now() < *deadline) continue;
    is_timed_out = true;
    deadline.reset();
    ticket->cancel();
  }
}

Outcome RequestRun::outcome() const {
  const std::string after = " after " + std::to_string(ticket->answer().ids().size()) + " tokens";
  if (ticket->error()) return {code_of(ticket->error()->kind()), ticket->error()->what()};
  if (is_stopped) return {COLIBRI_CANCELLED, "the callback ended the request" + after};
  if (ticket->reason() != FinishReason::kCancelled) return {};
  if (!is_timed_out) return {COLIBRI_CANCELLED, "the request was cancelled" + after};
  return {COLIBRI_TIMEOUT,
          "timeout_ms, " + std::to_string(request.timeout_ms) + ", passed" + after};
}

int64_t finish_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return COLIBRI_FINISH_NONE;
    case FinishReason::kStop:
      return COLIBRI_FINISH_STOP;
    case FinishReason::kLength:
      return COLIBRI_FINISH_LENGTH;
    case FinishReason::kCancelled:
      return COLIBRI_FINISH_CANCELLED;
  }
  return COLIBRI_FINISH_NONE;
}

colibri_result RequestRun::result() const {
  const auto ms_to = [this](Clock::time_point point) {
    return std::chrono::duration<double, std::milli>(point - start).count();
  };
  const Answer& answer = ticket->answer();
  const bool has_text = engine.model.facts().tokenizer != nullptr;
  colibri_result made = make_result(has_text ? &answer.text() : nullptr, answer.ids());
  made.finish = finish_of(ticket->reason());
  made.num_prompt_ids = ticket->num_prompt_ids();
  if (const auto first = answer.first_token_at()) made.first_token_ms = ms_to(*first);
  made.total_ms = ms_to(Clock::now());
  return made;
}

void refuse_in_callback(colibri_engine& engine, const char* function) {
  if (!engine.is_in_callback()) return;
  throw StateError(std::string(function) +
                   " was called from a callback of this engine, and would wait for it; want "
                   "another thread, or after the callback");
}

Outcome run_request(colibri_engine* handle, const colibri_request* given, const Receiver& receiver,
                    colibri_result* result) {
  if (result != nullptr) write_struct(result, colibri_result{});
  const Call call(handle);
  refuse_in_callback(*call, receiver.on_piece == nullptr ? "colibri_infer" : "colibri_stream");
  RequestRun run{*call, read_struct(given, default_request()), receiver};
  run.run();
  if (result != nullptr) write_struct(result, run.result());
  return run.outcome();
}

}  // namespace
}  // namespace colibri

using namespace colibri;

const char* colibri_version(void) { return kVersion; }

const char* colibri_code_name(int code) {
  static constexpr const char* kNames[] = {"ok",      "input",     "environment", "unsupported",
                                           "timeout", "rank lost", "internal",    "cancelled",
                                           "state",   "not found"};
  const bool is_known = code >= COLIBRI_OK && code <= COLIBRI_NOT_FOUND;
  return is_known ? kNames[code] : "unknown";
}

int colibri_default_options(colibri_options* options) {
  return guarded(nullptr, [&] {
    write_struct(options, colibri_options{});
    return Outcome{};
  });
}

int colibri_default_request(colibri_request* request) {
  return guarded(nullptr, [&] {
    write_struct(request, default_request());
    return Outcome{};
  });
}

int colibri_init(const colibri_options* options, colibri_engine** engine, colibri_error* error) {
  if (engine != nullptr) *engine = nullptr;
  return guarded(error, [&] {
    if (engine == nullptr) fail(ErrorKind::kInput, "the place for the engine is NULL");
    *engine = std::make_unique<colibri_engine>(read_struct(options, colibri_options{})).release();
    return Outcome{};
  });
}

int colibri_infer(colibri_engine* engine, const colibri_request* request, colibri_result* result,
                  colibri_error* error) {
  return guarded(error, [&] {
    if (result == nullptr) fail(ErrorKind::kInput, "colibri_result is NULL");
    return run_request(engine, request, {}, result);
  });
}

int colibri_stream(colibri_engine* engine, const colibri_request* request,
                   colibri_piece_fn on_piece, void* user, colibri_result* result,
                   colibri_error* error) {
  return guarded(error, [&] {
    if (result != nullptr) write_struct(result, colibri_result{});
    if (on_piece == nullptr) fail(ErrorKind::kInput, "the callback of colibri_stream is NULL");
    return run_request(engine, request, {on_piece, user}, result);
  });
}

int colibri_cancel(colibri_engine* engine, int64_t id) {
  return guarded(nullptr, [&] {
    const Call call(engine);
    if (id == 0) fail(ErrorKind::kInput, "the id is 0, which no request has");
    return Outcome{(*call).model.cancel(id) > 0 ? COLIBRI_OK : COLIBRI_NOT_FOUND};
  });
}

int colibri_tokenize(colibri_engine* engine, const colibri_request* request, colibri_result* result,
                     colibri_error* error) {
  return guarded(error, [&] {
    write_struct(result, colibri_result{});
    const Call call(engine);
    const auto ids = prompt_ids_of(read_struct(request, default_request()), (*call).model.facts());
    colibri_result made = make_result(nullptr, ids);
    made.num_prompt_ids = static_cast<int64_t>(ids.size());
    write_struct(result, made);
    return Outcome{};
  });
}

int colibri_detokenize(colibri_engine* engine, const int32_t* ids, size_t num_ids,
                       colibri_result* result, colibri_error* error) {
  return guarded(error, [&] {
    write_struct(result, colibri_result{});
    const Call call(engine);
    const ServedFacts& facts = (*call).model.facts();
    if (!facts.tokenizer) fail(ErrorKind::kInput, "the model has no tokenizer.json");
    if (ids == nullptr && num_ids > 0) fail(ErrorKind::kInput, "ids is NULL, num_ids ", num_ids);
    const std::string text = facts.tokenizer->decode({ids, num_ids}, true);
    write_struct(result, make_result(&text, {}));
    return Outcome{};
  });
}

int colibri_get_info(colibri_engine* engine, colibri_info* info) {
  return guarded(nullptr, [&] {
    write_struct(info, colibri_info{});
    const Call call(engine);
    const ServedModel& model = (*call).model;
    const ServedFacts& facts = model.facts();
    write_struct(info, colibri_info{.struct_size = 0,
                                    .vocab_size = facts.vocab_size,
                                    .max_context = facts.max_context,
                                    .max_batch = model.max_batch(),
                                    .ranks = model.num_ranks(),
                                    .has_tokenizer = facts.tokenizer ? 1 : 0,
                                    .has_chat_template = facts.chat_template ? 1 : 0,
                                    .is_running = model.is_running() ? 1 : 0});
    return Outcome{};
  });
}

void colibri_result_free(colibri_result* result) {
  guarded(nullptr, [&] {
    if (result == nullptr) return Outcome{};
    checked_size(result, "colibri_result", StructForm<colibri_result>::kLeast, sizeof *result);
    std::free(result->memory);
    write_struct(result, colibri_result{});
    return Outcome{};
  });
}

int colibri_free(colibri_engine* engine) {
  return guarded(nullptr, [&] {
    if (engine == nullptr) return Outcome{};
    if (!engine->is_mine()) throw StateError("the engine belongs to another process");
    refuse_in_callback(*engine, "colibri_free");
    {
      const std::lock_guard lock(engine->mutex);
      engine->is_freed = true;
    }
    engine->model.close();
    {
      std::unique_lock lock(engine->mutex);
      engine->left.wait(lock, [engine] { return engine->num_calls == 0; });
    }
    delete engine;
    return Outcome{};
  });
}
