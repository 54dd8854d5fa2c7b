// One choice of an answer as it grows: its text, the prompt before it where that is echoed, and its
// tokens' log probabilities where they are asked for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/answer.h"
#include "coordinator/api_response.h"
#include "coordinator/token_scores.h"

namespace colibri {

struct ChoiceOptions {
  int index = 0;
  std::vector<std::string> stops = {};
  std::vector<int32_t> end_ids = {};  // special ones among them are no part of the text
  bool has_logprobs = false;
  // The prompt, where the text begins with it: then scores of its tokens come too, with logprobs.
  std::string echo_text = {};
  std::vector<int32_t> echo_ids = {};
};

class GrowingChoice {
 public:
  // Called with text that is certain, and the tokens since the piece before: those whose text is
  // still held back are among them.
  using OnPiece = std::function<void(const ApiChoice& piece)>;

  // `tokenizer` outlives it.
  GrowingChoice(const Tokenizer& tokenizer, ChoiceOptions options, OnPiece on_piece);
  GrowingChoice(const GrowingChoice&) = delete;  // its parts point to it
  GrowingChoice& operator=(const GrowingChoice&) = delete;

  // Call once, before the others.
  void begin();
  void add_score(const TokenScore& score);
  // False when a stop string was found.
  bool add_token(int32_t id) { return answer_.push(id); }
  // Call once, after the others.
  void end(FinishReason reason);

  FinishReason reason() const { return reason_; }  // kNone before the end
  auto last_token_at() const { return answer_.last_token_at(); }
  int64_t num_tokens() const { return static_cast<int64_t>(answer_.ids().size()); }
  ApiChoice whole() const;

 private:
  void add_logprob(int32_t id, std::optional<double> logprob,
                   const std::vector<std::pair<int32_t, double>>& top);
  void hand_out(const std::string& text);

  const Tokenizer& tokenizer_;
  ChoiceOptions options_;
  OnPiece on_piece_;
  Answer answer_;
  std::string held_;              // echo that waits for its scores
  std::vector<ApiToken> tokens_;  // all of them
  size_t num_tokens_handed_ = 0;  // leading ones that a piece had
  size_t num_characters_ = 0;     // begun in the text so far, as its tokens spell it
  FinishReason reason_ = FinishReason::kNone;
};

}  // namespace colibri
