// What tokenizer.json and tokenizer_config.json say, as plain data: read and checked once by
// tokenizer_json.cc, then built into the parts that run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/token_table.h"

namespace colibri {

struct PatternSpec {
  std::string text;
  bool is_regex = false;
  std::string where;  // file and JSON path, for messages
};

enum class NormalizerKind : uint8_t {
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kLowercase,
  kReplace,
  kPrepend,
  kStrip
};

struct NormalizerSpec {
  NormalizerKind kind{};
  PatternSpec pattern;       // kReplace
  std::string content;       // kReplace, kPrepend
  bool strip_left = false;   // kStrip
  bool strip_right = false;  // kStrip
};

enum class SplitBehavior : uint8_t {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

enum class PreTokenizerKind : uint8_t {
  kSplit,
  kByteLevel,
  kDigits,
  kMetaspace,
  kPunctuation,
  kWhitespace,
  kWhitespaceSplit
};

struct PreTokenizerSpec {
  PreTokenizerKind kind{};
  PatternSpec pattern;                                    // kSplit
  SplitBehavior behavior = SplitBehavior::kIsolated;      // kSplit, kPunctuation
  bool invert = false;                                    // kSplit
  bool add_prefix_space = false;                          // kByteLevel
  bool use_regex = true;                                  // kByteLevel
  bool individual_digits = false;                         // kDigits
  std::string replacement;                                // kMetaspace, one character
  PrependScheme prepend_scheme = PrependScheme::kAlways;  // kMetaspace
  bool split = true;                                      // kMetaspace
};

enum class DecoderKind : uint8_t { kByteLevel, kReplace, kByteFallback, kFuse, kStrip, kMetaspace };

struct DecoderSpec {
  DecoderKind kind{};
  PatternSpec pattern;      // kReplace
  std::string content;      // kReplace; kStrip: one character
  int32_t strip_start = 0;  // kStrip, characters
  int32_t strip_stop = 0;   // kStrip, characters
  std::string replacement;  // kMetaspace, one character
  bool drops_first = true;  // kMetaspace: the first token loses its replacement characters
};

struct AddedTokenSpec {
  int32_t id = kNoToken;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

// Texts one after the other in one string.
struct TextList {
  std::string bytes;
  std::vector<uint32_t> ends;

  void add(std::string_view text) {
    bytes += text;
    ends.push_back(static_cast<uint32_t>(bytes.size()));
  }
  std::string_view at(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
  size_t size() const { return ends.size(); }
};

struct BpeSpec {
  TokenTable vocab;
  TextList merges;  // left and right of each merge in turn, best merge first
  std::optional<std::string> unk_token;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

struct TokenizerSpec {
  BpeSpec bpe;
  std::vector<AddedTokenSpec> added_tokens;      // no id and no content twice
  std::vector<NormalizerSpec> normalizers;       // in order; nested sequences are flat
  std::vector<PreTokenizerSpec> pre_tokenizers;  // in order
  std::vector<DecoderSpec> decoders;             // in order
  bool has_decoder = false;                      // without one, tokens are joined by spaces
  std::vector<int32_t> prefix_ids, suffix_ids;   // what add_special_tokens puts around the text

  // Raw; empty if there is none. The other is for conversations with tools.
  std::string chat_template, tool_chat_template;
  std::optional<int32_t> bos_id, eos_id;
};

// Reads both files' contents; `config_json` may be empty (no such file). Checks everything it uses:
// depth, types, ids, names. Errors, each naming the JSON path:
//   kInput        not JSON, deeper than 64, wrong types, ids or texts twice or out of range,
//                 merges that name unknown tokens
//   kUnsupported  a component, option or model type that is not implemented
TokenizerSpec parse_tokenizer(std::string_view tokenizer_json, std::string_view config_json);

}  // namespace colibri
