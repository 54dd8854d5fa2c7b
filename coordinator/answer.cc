#include "coordinator/answer.h"

#include <utility>

namespace colibri {

Answer::Answer(const Tokenizer* tokenizer, const std::vector<std::string>& stops, OnText on_text)
    : stops_(stops), on_text_(std::move(on_text)) {
  if (tokenizer != nullptr) detokenizer_.emplace(*tokenizer, true);
}

bool Answer::push(int32_t id) {
  last_token_at_ = Clock::now();
  if (!first_token_at_) first_token_at_ = last_token_at_;
  ids_.push_back(id);
  if (detokenizer_) emit(stops_.push(detokenizer_->push(id)));
  return !stops_.stopped();
}

void Answer::finish() {
  if (!detokenizer_) return;
  if (!stops_.stopped()) emit(stops_.push(detokenizer_->finish()));
  if (!stops_.stopped()) emit(stops_.finish());
}

void Answer::emit(const std::string& text) {
  if (text.empty()) return;
  text_ += text;
  on_text_(text);
}

}  // namespace colibri
