// One prompt's answer as it grows: ids, certain text, stop strings, times.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/stop_strings.h"
#include "model/detokenizer.h"
#include "model/tokenizer.h"

namespace colibri {

class Answer {
 public:
  using Clock = std::chrono::steady_clock;
  // Called with text that is certain; never empty.
  using OnText = std::function<void(const std::string&)>;

  // `tokenizer` may be null: then there is no text. It outlives the answer.
  Answer(const Tokenizer* tokenizer, const std::vector<std::string>& stops, OnText on_text);

  // False when a stop string was found: the sequence ends.
  bool push(int32_t id);
  // Hands out what was held back. Call once, when the sequence has ended.
  void finish();

  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }
  std::optional<Clock::time_point> first_token_at() const { return first_token_at_; }
  Clock::time_point last_token_at() const { return last_token_at_; }

 private:
  void emit(const std::string& text);

  std::optional<Detokenizer> detokenizer_;
  StopStrings stops_;
  OnText on_text_;
  std::vector<int32_t> ids_;
  std::string text_;
  std::optional<Clock::time_point> first_token_at_;
  Clock::time_point last_token_at_;
};

}  // namespace colibri
