#include "coordinator/api_choice.h"

#include <algorithm>
#include <utility>

namespace colibri {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

GrowingChoice::GrowingChoice(const Tokenizer& tokenizer, ChoiceOptions options, OnPiece on_piece)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      on_piece_(std::move(on_piece)),
      answer_(&tokenizer, options_.stops, [this](const std::string& text) { hand_out(text); }) {}

void GrowingChoice::begin() {
  if (options_.echo_ids.empty()) return;
  if (!options_.has_logprobs) return hand_out(options_.echo_text);
  held_ = options_.echo_text;
  add_logprob(options_.echo_ids.front(), std::nullopt, {});
}

void GrowingChoice::add_score(const TokenScore& score) {
  const auto& ends = options_.end_ids;
  const bool is_generated = score.position >= static_cast<int64_t>(options_.echo_ids.size());
  const bool is_end = is_generated && tokenizer_.is_special(score.id) &&
                      std::find(ends.begin(), ends.end(), score.id) != ends.end();
  if (!is_end) add_logprob(score.id, score.logprob, score.top);
}

void GrowingChoice::add_logprob(int32_t id, std::optional<double> logprob,
                                const std::vector<std::pair<int32_t, double>>& top) {
  ApiToken token{.bytes = tokenizer_.token_bytes(id), .logprob = logprob};
  for (const auto& [other, other_logprob] : top) {
    token.top.emplace_back(tokenizer_.token_bytes(other), other_logprob);
  }
  const bool is_inside = !token.bytes.empty() && continues_character(token.bytes.front());
  token.offset = num_characters_ - (is_inside && num_characters_ > 0 ? 1 : 0);
  if (!tokenizer_.is_special(id)) {  // the text leaves those out
    num_characters_ += static_cast<size_t>(std::count_if(
        token.bytes.begin(), token.bytes.end(), [](char c) { return !continues_character(c); }));
  }
  tokens_.push_back(std::move(token));
}

void GrowingChoice::hand_out(const std::string& text) {
  ApiChoice piece{.index = options_.index, .text = std::exchange(held_, {}) + text};
  if (options_.has_logprobs) {
    piece.tokens.emplace(tokens_.begin() + static_cast<ptrdiff_t>(num_tokens_handed_),
                         tokens_.end());
    num_tokens_handed_ = tokens_.size();
  }
  on_piece_(piece);
}

void GrowingChoice::end(FinishReason reason) {
  answer_.finish();
  if (!held_.empty() || num_tokens_handed_ < tokens_.size()) hand_out("");
  reason_ = reason;
}

ApiChoice GrowingChoice::whole() const {
  ApiChoice choice{
      .index = options_.index, .text = options_.echo_text + answer_.text(), .reason = reason_};
  if (options_.has_logprobs) choice.tokens = tokens_;
  return choice;
}

}  // namespace colibri
