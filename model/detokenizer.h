// Ids to text, as they come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/decoder.h"

namespace colibri {

class Tokenizer;

// Streams the text of one sequence. All pushes and finish(), joined, are exactly
// Tokenizer::decode() of all the ids. Every returned part is well-formed UTF-8.
//
// Held back until it is certain: the bytes of an unfinished character; with the ByteFallback
// decoder a whole run of byte tokens (one wrong byte changes all of it); what a Strip or Replace
// may take.
//
// Cost: proportional to the text of the token, whatever came before. One thread at a time.
class Detokenizer {
 public:
  // `tokenizer` must outlive it.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // The new text that is certain; may be empty. Ids that are no token are passed over.
  std::string push(int32_t id);

  // The rest; unfinished bytes become U+FFFD. Afterwards the detokenizer starts afresh.
  std::string finish();

 private:
  void start();

  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<std::string> out_;  // stays in place when the detokenizer moves
  std::vector<std::unique_ptr<DecodeStage>> chain_;
};

}  // namespace colibri
