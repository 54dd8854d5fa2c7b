// The decoder of tokenizer.json as a chain of stages that text runs through, token by token.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer_regex.h"
#include "model/tokenizer_spec.h"

namespace colibri {

// Gets token texts and passes on what is certain. Before a stage that fuses (Fuse, ByteLevel) every
// push is one whole token; behind it all pushes together are one token.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void push(std::string_view text) = 0;
  // The end: passes on what was held back, then ends the next stage.
  virtual void finish() {
    if (next_ != nullptr) next_->finish();
  }
  void set_next(DecodeStage* next) { next_ = next; }

 protected:
  void emit(std::string_view text) { next_->push(text); }

 private:
  DecodeStage* next_ = nullptr;
};

// What is the same for all chains of a tokenizer. Immutable.
class Decoder {
 public:
  // Fails with kUnsupported for an order of stages whose result cannot be streamed.
  Decoder(const std::vector<DecoderSpec>& steps, bool has_decoder);

  // A fresh chain that appends to `out`. The decoder and `out` must outlive it.
  std::vector<std::unique_ptr<DecodeStage>> make_chain(std::string& out) const;

  // The bytes that a token stands for by itself, wherever in a text it comes: of a character that
  // several tokens share only its own part; nothing is stripped.
  std::string token_bytes(std::string_view token) const;

 private:
  struct Step {
    DecoderSpec spec;
    bool is_fused;  // its input is one token in many pushes
    std::unique_ptr<const Regex> pattern;
  };
  static std::unique_ptr<DecodeStage> make_stage(const Step& step);
  std::vector<Step> steps_;
  bool has_decoder_;
};

}  // namespace colibri
