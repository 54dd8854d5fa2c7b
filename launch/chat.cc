#include "launch/chat.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "coordinator/answer.h"
#include "launch/model_session.h"
#include "launch/model_text.h"
#include "launch/prompts.h"
#include "launch/rank_signals.h"
#include "launch/session_setup.h"
#include "launch/standard_out.h"
#include "model/chat_template.h"
#include "transport/transport.h"

namespace colibri {
namespace {

// Lines of stdin, waited for in a way that signals interrupt.
class Lines {
 public:
  // Nothing at the end, or when `is_over` says so, which is asked every 50 ms.
  std::optional<std::string> next(const std::function<bool()>& is_over);

 private:
  std::string read_;
  bool has_ended_ = false;
};

std::optional<std::string> Lines::next(const std::function<bool()>& is_over) {
  for (;;) {
    const size_t end = read_.find('\n');
    if (end != read_.npos || (has_ended_ && !read_.empty())) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end == read_.npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    if (has_ended_ || is_over()) return std::nullopt;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, 50) <= 0) continue;
    char buffer[4096];
    const ssize_t bytes = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (bytes > 0) read_.append(buffer, static_cast<size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EINTR && errno != EAGAIN)) has_ended_ = true;
  }
}

// What a conversation is answered with; read before the weights.
struct Speaker {
  PromptSet defaults;
  std::optional<ChatTemplate> chat_template;
  int64_t max_context = 0;
};

class Chat {
 public:
  // `transport` may be null.
  Chat(const RunConfig& config, const Speaker& speaker, Engine& engine, Transport* transport)
      : options_(config.generate),
        speaker_(speaker),
        engine_(engine),
        transport_(transport),
        system_(config.chat.system),
        is_terminal_(isatty(STDIN_FILENO) == 1) {
    reset();
  }

  int run();

 private:
  void reset();
  void take_turn(const std::string& line);
  std::vector<int32_t> ids_of_conversation() const;
  std::string answer_to(const std::vector<int32_t>& ids);

  const GenerateOptions& options_;
  const Speaker& speaker_;
  Engine& engine_;
  Transport* transport_;
  std::string system_;
  bool is_terminal_;
  bool was_interrupted_ = false;  // the last answer, and nothing was typed since
  std::vector<ChatMessage> messages_;
};

void Chat::reset() {
  messages_.clear();
  if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
}

int Chat::run() {
  Lines lines;
  const auto say = [this](const char* text) {
    if (is_terminal_) std::fputs(text, stderr);
  };
  say("colibri: /reset begins anew, /exit leaves, Ctrl-C ends an answer\n");
  while (!drain_requested()) {
    say("> ");
    const int before = num_interrupts();
    int seen = before;
    const auto line = lines.next([&] {
      // So that workers on other machines hear that this rank is there.
      if (transport_ != nullptr) transport_->progress();
      if (num_interrupts() > seen) {
        seen = num_interrupts();
        if (was_interrupted_ || seen > before + 1) return true;
        say("\ncolibri: Ctrl-C again leaves\n> ");
      }
      return drain_requested();
    });
    if (!line || *line == "/exit") break;
    if (*line == "/reset") {
      reset();
      was_interrupted_ = false;
    } else if (line->find_first_not_of(" \t") != line->npos) {
      take_turn(*line);
      if (num_interrupts() > before + 1) break;
    }
  }
  say("\n");
  return 0;
}

void Chat::take_turn(const std::string& line) {
  const size_t size = messages_.size();
  messages_.push_back({.role = "user", .content = line});
  try {
    const std::string answer = answer_to(ids_of_conversation());
    messages_.push_back({.role = "assistant", .content = answer});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput || !is_terminal_) throw;
    messages_.resize(size);
    std::fprintf(stderr, "colibri: %s\n", error.what());
  }
}

std::vector<int32_t> Chat::ids_of_conversation() const {
  const Tokenizer& tokenizer = *speaker_.defaults.tokenizer;
  const std::string messages = chat_messages_json(messages_);
  const std::string text =
      speaker_.chat_template->render({.messages_json = messages,
                                      .tools_json = {},
                                      .documents_json = {},
                                      .kwargs_json = {},
                                      .add_generation_prompt = true,
                                      .special_tokens = chat_special_tokens(tokenizer),
                                      .now = {}});
  std::vector<int32_t> ids = tokenizer.encode(text, false);  // the template writes the specials
  const auto length = static_cast<int64_t>(ids.size());
  if (length >= speaker_.max_context) {
    fail(ErrorKind::kInput, "the conversation is ", length, " tokens, want at most ",
         speaker_.max_context - 1, "; /reset begins anew, --max-context may allow more");
  }
  return ids;
}

std::string Chat::answer_to(const std::vector<int32_t>& ids) {
  Answer answer(speaker_.defaults.tokenizer.get(), options_.stop, write_out);
  Request request;
  request.prompt_ids = ids;
  const int64_t room = speaker_.max_context - static_cast<int64_t>(ids.size());
  request.max_tokens = options_.max_tokens > 0 ? std::min(options_.max_tokens, room) : room;
  request.sampling = speaker_.defaults.sampling;
  request.stop_ids = speaker_.defaults.eos_ids;
  request.on_token = [&](int32_t id) { return answer.push(id); };
  request.on_end = [](FinishReason) {};  // so that the engine keeps nothing of it
  const int before = num_interrupts();
  was_interrupted_ = false;
  engine_.add(std::move(request));
  while (engine_.step()) {
    was_interrupted_ = num_interrupts() > before;
    if (was_interrupted_ || drain_requested()) engine_.cancel_all();
  }
  answer.finish();
  if (!answer.text().ends_with('\n')) write_out("\n");
  return answer.text();
}

}  // namespace

int chat(const RunConfig& config, RankContext& context) {
  Speaker speaker;
  const auto prepare = [&](const Checkpoint& checkpoint) {
    speaker.defaults = read_answer_defaults(config.generate, checkpoint);
    speaker.defaults.tokenizer = load_tokenizer(checkpoint);
    const std::string& source = speaker.defaults.tokenizer->chat_template();
    if (source.empty()) {
      fail(ErrorKind::kInput, config.common.model,
           " has no chat template (tokenizer_config.json or chat_template.jinja); use colibri "
           "generate");
    }
    speaker.chat_template.emplace(source);
    speaker.max_context = context_limit(config.common, checkpoint.config());
    for (const std::string& warning : speaker.defaults.warnings) context.log->warn("{}", warning);
    return SessionNeeds{.max_context = speaker.max_context, .shares_prefixes = true};
  };
  return run_session(config.common, context, prepare, {}, [&](ModelSession&, Serving& serving) {
    count_interrupts();
    return Chat(config, speaker, serving.engine, context.transport).run();
  });
}

}  // namespace colibri
