#include "launch/c_api_structs.h"

#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <new>

#include "launch/config_checks.h"

namespace colibri {
namespace {

// A size above is no struct's, but memory that nobody has set.
constexpr size_t kMostBytes = 4096;
constexpr int64_t kMostRanks = 64;
constexpr int64_t kDefaultTokens = 128;
constexpr size_t kMostStops = 64;
constexpr size_t kMostIds = size_t{1} << 30;

// A field may be added, none may move: older programs have them where they are.
static_assert(sizeof(void*) == 8 && sizeof(size_t) == 8, "colibri.h has fields of eight bytes");
static_assert(sizeof(colibri_options) == 17 * 8 && sizeof(colibri_request) == 20 * 8 &&
              sizeof(colibri_result) == 10 * 8 && sizeof(colibri_piece) == 5 * 8 &&
              sizeof(colibri_info) == 8 * 8 && sizeof(colibri_error) == 1024);

void check_range(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  fail(ErrorKind::kInput, field, " is ", value, ", want ", low, " to ", high);
}

void set_word(std::string& word, const char* given) {
  if (given != nullptr) word = given;
}

spdlog::level::level_enum level_of(int64_t level) {
  switch (level) {
    case COLIBRI_LOG_DEFAULT:
    case COLIBRI_LOG_WARNING:
      return spdlog::level::warn;
    case COLIBRI_LOG_DEBUG:
      return spdlog::level::debug;
    case COLIBRI_LOG_INFO:
      return spdlog::level::info;
    case COLIBRI_LOG_ERROR:
      return spdlog::level::err;
    default:
      fail(ErrorKind::kInput, "log_level is ", level, ", want 0 to ", int{COLIBRI_LOG_ERROR});
  }
}

int told_level(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return COLIBRI_LOG_ERROR;
  if (level == spdlog::level::warn) return COLIBRI_LOG_WARNING;
  return level == spdlog::level::info ? COLIBRI_LOG_INFO : COLIBRI_LOG_DEBUG;
}

class CallbackSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  CallbackSink(colibri_log_fn tell, void* user,
               std::function<void(const std::function<void()>&)> around)
      : tell_(tell), user_(user), around_(std::move(around)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    around_([&] { tell_(user_, told_level(message.level), text.c_str()); });
  }
  void flush_() override {}

  colibri_log_fn tell_;
  void* user_;
  std::function<void(const std::function<void()>&)> around_;
};

std::string_view prompt_text_of(const colibri_request& request) {
  if (request.prompt_bytes == 0) return request.prompt;
  return {request.prompt, request.prompt_bytes};
}

std::string conversation_of(const colibri_request& request, const ServedFacts& facts) {
  if (facts.chat_template_error) throw Error(*facts.chat_template_error);
  if (!facts.chat_template) {
    fail(ErrorKind::kInput, "messages: the model has no chat template; want a prompt");
  }
  return facts.chat_template->render({.messages_json = request.messages,
                                      .tools_json = request.tools == nullptr ? "" : request.tools,
                                      .documents_json = {},
                                      .kwargs_json = {},
                                      .add_generation_prompt = true,
                                      .special_tokens = chat_special_tokens(*facts.tokenizer),
                                      .now = {}});
}

// As `colibri generate` has it: what is given of sampling asks for it, but temperature 0.
SamplingParams sampling_of(const colibri_request& request, const SamplingParams& defaults) {
  SamplingParams params = defaults;
  const bool has_top_p = !(request.top_p <= 0), has_min_p = !(request.min_p < 0);
  const bool asks = !(request.temperature < 0) || has_top_p || request.top_k >= 0 || has_min_p;
  params.greedy = request.temperature == 0 || (!asks && defaults.greedy);
  if (!(request.temperature < 0)) params.temperature = static_cast<float>(request.temperature);
  if (has_top_p) params.top_p = static_cast<float>(request.top_p);
  if (has_min_p) params.min_p = static_cast<float>(request.min_p);
  check_range("top_k", request.top_k, INT_MIN, INT_MAX);
  if (request.top_k >= 0) params.top_k = static_cast<int>(request.top_k);
  params.seed = request.seed;
  check_sampling(params);
  return params;
}

// Bytes of `text` before a character that `room` would cut.
size_t whole_characters(std::string_view text, size_t room) {
  if (text.size() <= room) return text.size();
  while (room > 0 && (static_cast<unsigned char>(text[room]) & 0xC0) == 0x80) --room;
  return room;
}

}  // namespace

size_t checked_size(const void* given, const char* name, size_t least, size_t ours) {
  if (given == nullptr) fail(ErrorKind::kInput, name, " is NULL");
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size >= least && size <= kMostBytes && size % 8 == 0) return size;
  fail(ErrorKind::kInput, name, ".struct_size is ", size, ", want sizeof(", name, "), here ", ours);
}

void check_unknown_fields(const void* given, const char* name, size_t ours) {
  const auto* bytes = static_cast<const unsigned char*>(given);
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  for (size_t i = ours; i < size; ++i) {
    if (bytes[i] == 0) continue;
    fail(ErrorKind::kUnsupported, name, " has a field at byte ", i, " that colibri ", kVersion,
         " does not know, it has ", ours, " bytes; want zero there, or a newer library");
  }
}

colibri_request default_request() {
  colibri_request request = {};
  request.struct_size = sizeof request;
  request.temperature = request.top_p = request.min_p = -1;
  request.top_k = -1;
  return request;
}

int code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput:
      return COLIBRI_INPUT;
    case ErrorKind::kEnvironment:
      return COLIBRI_ENVIRONMENT;
    case ErrorKind::kUnsupported:
      return COLIBRI_UNSUPPORTED;
    case ErrorKind::kTimeout:
      return COLIBRI_TIMEOUT;
    case ErrorKind::kRankLost:
      return COLIBRI_RANK_LOST;
    case ErrorKind::kInternal:
      return COLIBRI_INTERNAL;
  }
  return COLIBRI_INTERNAL;
}

void write_error(colibri_error* out, int code, std::string_view text) {
  if (out == nullptr) return;
  const size_t size = out->struct_size;
  colibri_error values = {};
  values.code = code;
  const size_t room = std::min(size, sizeof values) - offsetof(colibri_error, text) - 1;
  std::memcpy(values.text, text.data(), whole_characters(text, room));
  write_struct(out, values);
}

CommonOptions common_options_of(const colibri_options& options) {
  check_range("ranks", options.ranks, 0, kMostRanks);
  for (const int64_t count : {options.threads, options.max_batch, options.step_timeout_s}) {
    check_range("threads, max_batch or step_timeout_s", count, 0, INT_MAX);
  }
  RunConfig config;
  config.verb = Verb::kServe;
  CommonOptions& common = config.common;
  set_word(common.model, options.model);
  set_word(common.device, options.device);
  set_word(common.weights, options.weights);
  set_word(common.dense_weights, options.dense_weights);
  set_word(common.kv_dtype, options.kv_dtype);
  set_word(common.placement, options.placement);
  common.transport = "local";
  common.ranks = static_cast<int>(std::max<int64_t>(options.ranks, 1));
  common.threads = static_cast<int>(options.threads);
  common.max_context = options.max_context;
  common.max_batch = static_cast<int>(options.max_batch);
  if (options.chunk != 0) common.chunk = options.chunk;
  if (options.step_timeout_s != 0) common.step_timeout_s = static_cast<int>(options.step_timeout_s);
  common.bind = options.pin_threads != 0 ? "own" : "inherit";
  if (common.model.empty()) fail(ErrorKind::kInput, "colibri_options.model is not set");
  check_config(config);
  return common;
}

Logger make_logger_of(const colibri_options& options,
                      const std::function<void(const std::function<void()>&)>& around) {
  const spdlog::level::level_enum level = level_of(options.log_level);
  if (options.log == nullptr) return make_null_logger();
  auto logger = std::make_shared<spdlog::logger>(
      "colibri", std::make_shared<CallbackSink>(options.log, options.log_user, around));
  logger->set_level(level);
  logger->set_error_handler([](const std::string&) {});  // else it writes to stderr
  return logger;
}

std::vector<int32_t> prompt_ids_of(const colibri_request& request, const ServedFacts& facts) {
  const int given = (request.prompt != nullptr ? 1 : 0) + (request.prompt_ids != nullptr ? 1 : 0) +
                    (request.messages != nullptr ? 1 : 0);
  if (given != 1) {
    fail(ErrorKind::kInput, given, " of prompt, prompt_ids and messages are set, want one");
  }
  if (request.prompt_ids != nullptr) {
    if (request.num_prompt_ids > kMostIds) {
      fail(ErrorKind::kInput, "num_prompt_ids is ", request.num_prompt_ids, ", want at most ",
           kMostIds);
    }
    return {request.prompt_ids, request.prompt_ids + request.num_prompt_ids};
  }
  if (!facts.tokenizer) {
    fail(ErrorKind::kInput,
         "the model has no tokenizer.json, so texts cannot be read; want "
         "prompt_ids");
  }
  if (request.prompt != nullptr) return facts.tokenizer->encode(prompt_text_of(request));
  return facts.tokenizer->encode(conversation_of(request, facts), false);
}

Request request_of(const colibri_request& request, const ServedFacts& facts) {
  check_range("max_tokens", request.max_tokens, 0, int64_t{1} << 30);
  check_range("timeout_ms", request.timeout_ms, 0, int64_t{1} << 40);
  Request made;
  made.sampling = sampling_of(request, facts.sampling);
  made.max_tokens = request.max_tokens > 0 ? request.max_tokens : kDefaultTokens;
  if (request.ignore_eos == 0) made.stop_ids = facts.eos_ids;
  if (request.num_stop_ids > 0) {
    if (request.stop_ids == nullptr || request.num_stop_ids > kMostIds) {
      fail(ErrorKind::kInput, "stop_ids is ", request.stop_ids == nullptr ? "NULL" : "set",
           " and num_stop_ids ", request.num_stop_ids, "; want both");
    }
    made.stop_ids.insert(made.stop_ids.end(), request.stop_ids,
                         request.stop_ids + request.num_stop_ids);
  }
  made.prompt_ids = prompt_ids_of(request, facts);
  return made;
}

std::vector<std::string> stops_of(const colibri_request& request, const ServedFacts& facts) {
  if (request.num_stop == 0) return {};
  if (request.stop == nullptr || request.num_stop > kMostStops) {
    fail(ErrorKind::kInput, "num_stop is ", request.num_stop, ", want at most ", kMostStops,
         " texts in `stop`");
  }
  if (!facts.tokenizer) {
    fail(ErrorKind::kInput,
         "stop: the model has no tokenizer.json, so there is no text to stop at");
  }
  std::vector<std::string> stops;
  for (size_t i = 0; i < request.num_stop; ++i) {
    if (request.stop[i] == nullptr) fail(ErrorKind::kInput, "stop[", i, "] is NULL");
    stops.emplace_back(request.stop[i]);
  }
  return stops;
}

// One block: the ids, then the text.
colibri_result make_result(const std::string* text, const std::vector<int32_t>& ids) {
  colibri_result result = {};
  const size_t id_bytes = ids.size() * sizeof(int32_t);
  const size_t text_bytes = text == nullptr ? 0 : text->size() + 1;
  result.memory = std::malloc(std::max<size_t>(id_bytes + text_bytes, 1));
  if (result.memory == nullptr) throw std::bad_alloc();
  result.ids = static_cast<int32_t*>(result.memory);
  result.num_ids = ids.size();
  if (id_bytes > 0) std::memcpy(result.ids, ids.data(), id_bytes);
  if (text == nullptr) return result;
  result.text = static_cast<char*>(result.memory) + id_bytes;
  result.text_bytes = text->size();
  std::memcpy(result.text, text->c_str(), text_bytes);
  return result;
}

}  // namespace colibri
