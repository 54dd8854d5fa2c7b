#include "model/tokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <mutex>

#include "base/error.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

constexpr uint32_t kMatchLimit = 50'000'000;        // steps for one match
constexpr size_t kJitStackBytes = size_t{8} << 20;  // taken only when 32 KB do not do

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct JitStackDeleter {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

std::string message_of(int code) {
  PCRE2_UCHAR text[200];
  if (pcre2_get_error_message(code, text, sizeof text) < 0) return "unknown PCRE2 error";
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct RegexScratch::State {
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, MatchContextDeleter> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, JitStackDeleter> stack;
};

RegexScratch::RegexScratch() = default;
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

struct Regex::State {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
  std::string where;
  std::string literal;  // not empty: the pattern is this text
  mutable std::once_flag jit_once;
};

Regex::Regex(std::unique_ptr<State> state) : state_(std::move(state)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Regex Regex::from_oniguruma(std::string_view pattern, std::string_view where) {
  return from_pcre(translate_oniguruma(pattern, where), where);
}

Regex Regex::literal(std::string_view text, std::string_view where) {
  if (text.empty()) {
    fail(ErrorKind::kUnsupported, where, ": an empty pattern is not supported");
  }
  auto state = std::make_unique<State>();
  state->where = where;
  state->literal = text;
  return Regex(std::move(state));
}

Regex Regex::from_pcre(std::string_view pattern, std::string_view where) {
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  auto state = std::make_unique<State>();
  state->where = where;
  state->code.reset(
      pcre2_compile(units(pattern), pattern.size(), options, &error, &offset, context.get()));
  if (state->code == nullptr) {
    fail(ErrorKind::kInput, where, ": the regular expression is wrong or not supported at byte ",
         offset, " of its PCRE2 form ", pattern, ": ", message_of(error));
  }
  return Regex(std::move(state));
}

bool Regex::find(std::string_view text, size_t start, RegexScratch& scratch,
                 ByteRange& match) const {
  if (!state_->literal.empty()) {
    const size_t at = text.find(state_->literal, start);
    if (at == std::string_view::npos) return false;
    match = {static_cast<uint32_t>(at), static_cast<uint32_t>(at + state_->literal.size())};
    return true;
  }
  std::call_once(state_->jit_once, [this] {
    pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
  });
  if (!scratch.state_) {
    scratch.state_ = std::make_unique<RegexScratch::State>();
    pcre2_set_match_limit(scratch.state_->context.get(), kMatchLimit);
  }
  RegexScratch::State& own = *scratch.state_;
  const auto run = [&] {
    return pcre2_match(state_->code.get(), units(text), text.size(), start, PCRE2_NO_UTF_CHECK,
                       own.data.get(), own.context.get());
  };
  int result = run();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && !own.stack) {
    own.stack.reset(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
    pcre2_jit_stack_assign(own.context.get(), nullptr, own.stack.get());
    result = run();
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    fail(ErrorKind::kInput, state_->where, ": matching ", text.size(),
         " bytes of text stopped at byte ", start, ": ", message_of(result),
         "; send less text at a time");
  }
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(own.data.get());
  match = {static_cast<uint32_t>(range[0]), static_cast<uint32_t>(range[1])};
  return true;
}

void Regex::find_all(std::string_view text, RegexScratch& scratch,
                     std::vector<ByteRange>& matches) const {
  matches.clear();
  size_t start = 0;
  ByteRange match;
  while (start <= text.size() && find(text, start, scratch, match)) {
    const bool is_empty = match.begin == match.end;
    if (is_empty && !matches.empty() && matches.back().end == match.end) {
      start += start < text.size() ? decode_utf8(text, start).num_bytes : 1;
      continue;
    }
    matches.push_back(match);
    start = match.end;
  }
}

}  // namespace colibri
