#include "model/decoder.h"

#include "base/error.h"
#include "model/pretokenizer.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

class Output : public DecodeStage {
 public:
  explicit Output(std::string& out) : out_(out) {}
  void push(std::string_view text) override { out_ += text; }

 private:
  std::string& out_;
};

// No decoder: tokens joined by spaces.
class JoinBySpaces : public DecodeStage {
 public:
  void push(std::string_view text) override {
    if (!is_first_) emit(" ");
    is_first_ = false;
    emit(text);
  }

 private:
  bool is_first_ = true;
};

class Fuse : public DecodeStage {
 public:
  void push(std::string_view text) override { emit(text); }
};

// Appends what characters of the byte-level alphabet stand for; of a token with others, itself.
void append_level_bytes(std::string_view token, std::string& bytes) {
  const size_t kept = bytes.size();
  for (size_t at = 0; at < token.size();) {
    const Utf8Char next = decode_utf8(token, at);
    const int byte = byte_of_level_char(next.code_point);
    if (byte < 0) {
      bytes.resize(kept);
      bytes += token;
      return;
    }
    bytes += static_cast<char>(byte);
    at += next.num_bytes;
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of <0xNN>; -1 for another token.
int byte_of_fallback(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

// Characters of the byte-level alphabet to bytes, bytes to text. Holds back the bytes of an
// unfinished character.
class ByteLevel : public DecodeStage {
 public:
  void push(std::string_view text) override {
    append_level_bytes(text, bytes_);
    const size_t num_open = incomplete_utf8_suffix_bytes(bytes_);
    const size_t num_done = bytes_.size() - num_open;
    if (num_done == 0) return;
    emit(replace_invalid_utf8(std::string_view(bytes_).substr(0, num_done)));
    bytes_.erase(0, num_done);
  }
  void finish() override {
    if (!bytes_.empty()) emit(replace_invalid_utf8(bytes_));
    bytes_.clear();
    DecodeStage::finish();
  }

 private:
  std::string bytes_;
};

// Runs of <0xNN> tokens to text: the run as a whole if it is well formed, else U+FFFD for each
// byte. A run is therefore held back until it ends.
class ByteFallback : public DecodeStage {
 public:
  void push(std::string_view text) override {
    const int byte = byte_of_fallback(text);
    if (byte >= 0) {
      run_ += static_cast<char>(byte);
      return;
    }
    flush();
    emit(text);
  }
  void finish() override {
    flush();
    DecodeStage::finish();
  }

 private:
  void flush() {
    if (run_.empty()) return;
    if (is_valid_utf8(run_)) {
      emit(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) emit(kReplacementUtf8);
    }
    run_.clear();
  }

  std::string run_;
};

class ReplaceInTokens : public DecodeStage {
 public:
  ReplaceInTokens(const Regex& pattern, std::string_view content)
      : pattern_(pattern), content_(content) {}
  void push(std::string_view text) override {
    pattern_.find_all(text, scratch_, matches_);
    std::string out;
    size_t at = 0;
    for (const ByteRange& match : matches_) {
      out += text.substr(at, match.begin - at);
      out += content_;
      at = match.end;
    }
    out += text.substr(at);
    emit(out);
  }

 private:
  const Regex& pattern_;
  std::string_view content_;
  RegexScratch scratch_;
  std::vector<ByteRange> matches_;
};

// Replaces a literal in text that arrives in parts; holds back what may be its beginning.
class ReplaceInStream : public DecodeStage {
 public:
  ReplaceInStream(std::string_view literal, std::string_view content)
      : literal_(literal), content_(content) {}
  void push(std::string_view text) override {
    held_ += text;
    std::string out;
    size_t at = 0;
    while (at < held_.size()) {
      const std::string_view rest = std::string_view(held_).substr(at);
      if (rest.starts_with(literal_)) {
        out += content_;
        at += literal_.size();
      } else if (literal_.starts_with(rest)) {
        break;
      } else {
        out += rest.front();
        ++at;
      }
    }
    held_.erase(0, at);
    if (!out.empty()) emit(out);
  }
  void finish() override {
    if (!held_.empty()) emit(held_);
    held_.clear();
    DecodeStage::finish();
  }

 private:
  std::string_view literal_, content_;
  std::string held_;
};

size_t leading(std::string_view text, std::string_view what, size_t most) {
  size_t count = 0;
  while (count < most && text.substr(count * what.size()).starts_with(what)) ++count;
  return count;
}

size_t trailing(std::string_view text, std::string_view what, size_t most) {
  size_t count = 0;
  while (count < most && text.substr(0, text.size() - count * what.size()).ends_with(what)) ++count;
  return count;
}

// Cuts up to `start` characters at the beginning and `stop` at the end of every token.
class StripTokens : public DecodeStage {
 public:
  explicit StripTokens(const DecoderSpec& spec) : spec_(spec) {}
  void push(std::string_view text) override {
    const std::string_view what = spec_.content;
    text.remove_prefix(what.size() * leading(text, what, static_cast<size_t>(spec_.strip_start)));
    text.remove_suffix(what.size() * trailing(text, what, static_cast<size_t>(spec_.strip_stop)));
    emit(text);
  }

 private:
  const DecoderSpec& spec_;
};

// The same for one token that arrives in parts; holds back what may be its end.
class StripStream : public DecodeStage {
 public:
  explicit StripStream(const DecoderSpec& spec)
      : spec_(spec), num_left_(static_cast<size_t>(spec.strip_start)) {}
  void push(std::string_view text) override {
    const std::string_view what = spec_.content;
    const size_t num_cut = leading(text, what, num_left_);
    text.remove_prefix(what.size() * num_cut);
    num_left_ -= num_cut;
    if (text.empty()) return;
    num_left_ = 0;
    held_ += text;
    const size_t num_kept =
        what.size() * trailing(held_, what, static_cast<size_t>(spec_.strip_stop));
    const size_t num_sure = held_.size() - num_kept;
    if (num_sure == 0) return;
    emit(std::string_view(held_).substr(0, num_sure));
    held_.erase(0, num_sure);
  }
  // What is still held is at most `stop` characters to strip: they end here.

 private:
  const DecoderSpec& spec_;
  size_t num_left_;
  std::string held_;
};

// Replacement characters to spaces; the first token loses them instead.
class Metaspace : public DecodeStage {
 public:
  Metaspace(const DecoderSpec& spec, bool is_fused) : spec_(spec), is_fused_(is_fused) {}
  void push(std::string_view text) override {
    const bool drops = is_first_ && spec_.drops_first;
    if (!is_fused_) is_first_ = false;
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text.substr(at).starts_with(spec_.replacement)) {
        if (!drops) out += ' ';
        at += spec_.replacement.size();
      } else {
        out += text[at++];
      }
    }
    emit(out);
  }

 private:
  const DecoderSpec& spec_;
  bool is_fused_, is_first_ = true;
};

[[noreturn]] void refuse_behind_fuse(std::string_view what) {
  fail(ErrorKind::kUnsupported, "tokenizer.json: /decoder: ", what,
       " behind a decoder that fuses the tokens is not supported");
}

// Whatever comes to one end through one stage alone.
std::string run_alone(DecodeStage& stage, std::string_view text) {
  std::string out;
  Output end(out);
  stage.set_next(&end);
  stage.push(text);
  stage.finish();
  return out;
}

}  // namespace

Decoder::Decoder(const std::vector<DecoderSpec>& steps, bool has_decoder)
    : has_decoder_(has_decoder) {
  bool is_fused = false;
  for (const DecoderSpec& spec : steps) {
    Step step{spec, is_fused, nullptr};
    const PatternSpec& p = spec.pattern;
    switch (spec.kind) {
      case DecoderKind::kByteLevel:
        if (is_fused) refuse_behind_fuse("ByteLevel");
        is_fused = true;
        break;
      case DecoderKind::kByteFallback:
        if (is_fused) refuse_behind_fuse("ByteFallback");
        break;
      case DecoderKind::kReplace:
        if (is_fused && p.is_regex) refuse_behind_fuse("Replace by a regular expression");
        step.pattern = std::make_unique<const Regex>(
            p.is_regex ? Regex::from_oniguruma(p.text, p.where) : Regex::literal(p.text, p.where));
        break;
      case DecoderKind::kFuse:
        is_fused = true;
        break;
      case DecoderKind::kStrip:
      case DecoderKind::kMetaspace:
        break;
    }
    steps_.push_back(std::move(step));
  }
}

std::unique_ptr<DecodeStage> Decoder::make_stage(const Step& step) {
  const DecoderSpec& spec = step.spec;
  switch (spec.kind) {
    case DecoderKind::kByteLevel:
      return std::make_unique<ByteLevel>();
    case DecoderKind::kReplace:
      if (step.is_fused) return std::make_unique<ReplaceInStream>(spec.pattern.text, spec.content);
      return std::make_unique<ReplaceInTokens>(*step.pattern, spec.content);
    case DecoderKind::kByteFallback:
      return std::make_unique<ByteFallback>();
    case DecoderKind::kFuse:
      return std::make_unique<Fuse>();
    case DecoderKind::kStrip:
      if (step.is_fused) return std::make_unique<StripStream>(spec);
      return std::make_unique<StripTokens>(spec);
    case DecoderKind::kMetaspace:
      return std::make_unique<Metaspace>(spec, step.is_fused);
  }
  fail(ErrorKind::kInternal, "DecoderKind value ", static_cast<int>(spec.kind));
}

std::string Decoder::token_bytes(std::string_view token) const {
  std::string text(token);
  for (const Step& step : steps_) {
    const DecoderSpec& spec = step.spec;
    switch (spec.kind) {
      case DecoderKind::kByteLevel: {
        std::string bytes;
        append_level_bytes(text, bytes);
        text = std::move(bytes);
        break;
      }
      case DecoderKind::kByteFallback:
        if (const int byte = byte_of_fallback(text); byte >= 0) text = static_cast<char>(byte);
        break;
      case DecoderKind::kReplace:
        if (is_valid_utf8(text)) text = run_alone(*make_stage(step), text);
        break;
      case DecoderKind::kMetaspace: {
        DecoderSpec inner = spec;
        inner.drops_first = false;
        Metaspace stage(inner, false);
        text = run_alone(stage, text);
        break;
      }
      case DecoderKind::kFuse:
      case DecoderKind::kStrip:
        break;
    }
  }
  return text;
}

std::vector<std::unique_ptr<DecodeStage>> Decoder::make_chain(std::string& out) const {
  std::vector<std::unique_ptr<DecodeStage>> chain;
  if (!has_decoder_) chain.push_back(std::make_unique<JoinBySpaces>());
  for (const Step& step : steps_) chain.push_back(make_stage(step));
  chain.push_back(std::make_unique<Output>(out));
  for (size_t i = 0; i + 1 < chain.size(); ++i) chain[i]->set_next(chain[i + 1].get());
  return chain;
}

}  // namespace colibri
