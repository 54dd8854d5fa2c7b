// The normalizer, pre_tokenizer, decoder and post_processor sections of tokenizer.json.
#include "model/tokenizer_json.h"
#include "model/tokenizer_utf8.h"

namespace colibri::tokenizer_json {
namespace {

constexpr size_t kMaxTemplatePieces = 256;

PatternSpec read_pattern(const View& at) {
  const View pattern = at.member("pattern");
  PatternSpec out;
  out.where = pattern.where();
  if (pattern.is_string()) {
    out.text = pattern.text();
  } else if (pattern.has("Regex")) {
    out.text = pattern.text("Regex");
    out.is_regex = true;
  } else {
    out.text = pattern.text("String");
  }
  if (out.text.empty()) pattern.refuse("an empty pattern");
  return out;
}

std::string read_char(const View& at) {
  const std::string text = at.text();
  if (text.empty() || decode_utf8(text, 0).num_bytes != text.size()) at.fail_type("one character");
  return text;
}

SplitBehavior read_behavior(const View& at) {
  const std::string name = at.text();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  at.refuse("behavior \"" + name + "\"");
}

PrependScheme read_prepend_scheme(const View& at) {
  PrependScheme scheme = PrependScheme::kAlways;
  if (at.has("prepend_scheme")) {
    const View name = at.member("prepend_scheme");
    const std::string text = name.text();
    if (text == "first") {
      scheme = PrependScheme::kFirst;
    } else if (text == "never") {
      scheme = PrependScheme::kNever;
    } else if (text != "always") {
      name.refuse("\"" + text + "\"");
    }
  }
  if (!at.boolean("add_prefix_space", true) && scheme != PrependScheme::kNever) {
    fail(ErrorKind::kInput, at.where(),
         ": add_prefix_space is false, so want prepend_scheme \"never\"");
  }
  return scheme;
}

// Calls `read` for every component of a section; sequences are walked through.
template <class Read>
void for_each_component(const View& at, const char* members, Read read) {
  if (at.is_null()) return;
  const std::string type = at.text("type");
  if (type != "Sequence") return read(at, type);
  for (const View& item : at.member(members).items()) for_each_component(item, members, read);
}

int32_t read_count(const View& at) { return static_cast<int32_t>(at.integer(0, 1 << 20)); }

}  // namespace

void read_normalizers(const View& section, std::vector<NormalizerSpec>& out) {
  for_each_component(section, "normalizers", [&out](const View& at, const std::string& type) {
    NormalizerSpec spec;
    if (type == "NFC") {
      spec.kind = NormalizerKind::kNfc;
    } else if (type == "NFD") {
      spec.kind = NormalizerKind::kNfd;
    } else if (type == "NFKC") {
      spec.kind = NormalizerKind::kNfkc;
    } else if (type == "NFKD") {
      spec.kind = NormalizerKind::kNfkd;
    } else if (type == "Lowercase") {
      spec.kind = NormalizerKind::kLowercase;
    } else if (type == "Replace") {
      spec.kind = NormalizerKind::kReplace;
      spec.pattern = read_pattern(at);
      spec.content = at.text("content");
    } else if (type == "Prepend") {
      spec.kind = NormalizerKind::kPrepend;
      spec.content = at.text("prepend");
    } else if (type == "Strip") {
      spec.kind = NormalizerKind::kStrip;
      spec.strip_left = at.boolean("strip_left", true);
      spec.strip_right = at.boolean("strip_right", true);
    } else {
      at.refuse("normalizer \"" + type + "\"");
    }
    out.push_back(std::move(spec));
  });
}

void read_pre_tokenizers(const View& section, std::vector<PreTokenizerSpec>& out) {
  for_each_component(section, "pretokenizers", [&out](const View& at, const std::string& type) {
    PreTokenizerSpec spec;
    if (type == "Split") {
      spec.kind = PreTokenizerKind::kSplit;
      spec.pattern = read_pattern(at);
      spec.behavior = read_behavior(at.member("behavior"));
      spec.invert = at.boolean("invert", false);
    } else if (type == "ByteLevel") {
      spec.kind = PreTokenizerKind::kByteLevel;
      spec.add_prefix_space = at.boolean("add_prefix_space", true);
      spec.use_regex = at.boolean("use_regex", true);
    } else if (type == "Digits") {
      spec.kind = PreTokenizerKind::kDigits;
      spec.individual_digits = at.boolean("individual_digits", false);
    } else if (type == "Metaspace") {
      spec.kind = PreTokenizerKind::kMetaspace;
      spec.replacement = read_char(at.member("replacement"));
      spec.prepend_scheme = read_prepend_scheme(at);
      spec.split = at.boolean("split", true);
    } else if (type == "Punctuation") {
      spec.kind = PreTokenizerKind::kPunctuation;
      if (at.has("behavior")) spec.behavior = read_behavior(at.member("behavior"));
    } else if (type == "Whitespace") {
      spec.kind = PreTokenizerKind::kWhitespace;
    } else if (type == "WhitespaceSplit") {
      spec.kind = PreTokenizerKind::kWhitespaceSplit;
    } else {
      at.refuse("pre_tokenizer \"" + type + "\"");
    }
    out.push_back(std::move(spec));
  });
}

void read_decoders(const View& section, std::vector<DecoderSpec>& out) {
  for_each_component(section, "decoders", [&out](const View& at, const std::string& type) {
    DecoderSpec spec;
    if (type == "ByteLevel") {
      spec.kind = DecoderKind::kByteLevel;
    } else if (type == "ByteFallback") {
      spec.kind = DecoderKind::kByteFallback;
    } else if (type == "Fuse") {
      spec.kind = DecoderKind::kFuse;
    } else if (type == "Replace") {
      spec.kind = DecoderKind::kReplace;
      spec.pattern = read_pattern(at);
      spec.content = at.text("content");
    } else if (type == "Strip") {
      spec.kind = DecoderKind::kStrip;
      spec.content = read_char(at.member("content"));
      spec.strip_start = read_count(at.member("start"));
      spec.strip_stop = read_count(at.member("stop"));
    } else if (type == "Metaspace") {
      spec.kind = DecoderKind::kMetaspace;
      spec.replacement = read_char(at.member("replacement"));
      spec.drops_first = read_prepend_scheme(at) != PrependScheme::kNever;
    } else {
      at.refuse("decoder \"" + type + "\"");
    }
    out.push_back(std::move(spec));
  });
}

namespace {

// The ids of one {"SpecialToken": {"id": NAME}} through special_tokens[NAME].ids.
std::vector<int32_t> special_token_ids(const View& processor, const View& piece) {
  const std::string name = piece.member("SpecialToken").text("id");
  const View ids = processor.member("special_tokens").member(name).member("ids");
  std::vector<int32_t> out;
  for (const View& id : ids.items()) {
    out.push_back(static_cast<int32_t>(id.integer(0, kMaxTokens - 1)));
  }
  return out;
}

void read_template(const View& processor, TokenizerSpec& spec) {
  std::vector<int32_t> before, behind;
  bool has_text = false;
  const View single = processor.member("single");
  const std::vector<View> pieces = single.items();
  if (pieces.size() > kMaxTemplatePieces) single.refuse("a template this long");
  for (const View& piece : pieces) {
    if (piece.has("SpecialToken")) {
      auto& side = has_text ? behind : before;
      for (const int32_t id : special_token_ids(processor, piece)) side.push_back(id);
      continue;
    }
    const View sequence = piece.member("Sequence").member("id");
    if (sequence.text() != "A" || has_text) piece.refuse("a template with other than one $A");
    has_text = true;
  }
  if (!has_text) single.refuse("a template without $A");
  spec.prefix_ids.insert(spec.prefix_ids.begin(), before.begin(), before.end());
  spec.suffix_ids.insert(spec.suffix_ids.end(), behind.begin(), behind.end());
}

}  // namespace

void read_post_processor(const View& section, TokenizerSpec& spec) {
  for_each_component(section, "processors", [&spec](const View& at, const std::string& type) {
    if (type == "TemplateProcessing") {
      read_template(at, spec);
    } else if (type != "ByteLevel") {  // ByteLevel only changes offsets
      at.refuse("post_processor \"" + type + "\"");
    }
  });
}

}  // namespace colibri::tokenizer_json
