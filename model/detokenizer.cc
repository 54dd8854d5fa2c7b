#include "model/detokenizer.h"

#include <utility>

#include "model/tokenizer.h"

namespace colibri {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      out_(std::make_unique<std::string>()) {
  start();
}

void Detokenizer::start() { chain_ = tokenizer_->decoder().make_chain(*out_); }

std::string Detokenizer::push(int32_t id) {
  const auto text = tokenizer_->token_text(id);
  if (!text || (skip_special_tokens_ && tokenizer_->is_special(id))) return {};
  chain_.front()->push(*text);
  return std::exchange(*out_, std::string());
}

std::string Detokenizer::finish() {
  chain_.front()->finish();
  std::string rest = std::exchange(*out_, std::string());
  start();
  return rest;
}

}  // namespace colibri
