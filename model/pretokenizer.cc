#include "model/pretokenizer.h"

#include <array>

#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

// The split rule of GPT-2, which ByteLevel(use_regex) means.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool is_printable_level_byte(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct ByteLevelAlphabet {
  std::array<char32_t, 256> char_of{};
  std::array<int, 0x144> byte_of{};

  ByteLevelAlphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      char_of[byte] = is_printable_level_byte(byte) ? byte : next++;
      byte_of[char_of[byte]] = static_cast<int>(byte);
    }
  }
};

const ByteLevelAlphabet& alphabet() {
  static const ByteLevelAlphabet kAlphabet;
  return kAlphabet;
}

struct Chunk {
  ByteRange range;
  bool is_match;
};

std::vector<Chunk> cover(ByteRange range, const std::vector<ByteRange>& matches, bool invert) {
  std::vector<Chunk> chunks;
  chunks.reserve(2 * matches.size() + 1);
  uint32_t at = range.begin;
  for (const ByteRange& match : matches) {
    const ByteRange here{range.begin + match.begin, range.begin + match.end};
    if (at != here.begin) chunks.push_back({{at, here.begin}, invert});
    chunks.push_back({here, !invert});
    at = here.end;
  }
  if (at != range.end) chunks.push_back({{at, range.end}, invert});
  return chunks;
}

// Rewrites every piece: `write(piece, is_first, out)` appends the new text of one.
template <class Write>
void rewrite(Pieces& pieces, Write write) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.text.size() / 2 + 16);
  for (ByteRange& range : pieces.ranges) {
    const auto begin = static_cast<uint32_t>(text.size());
    const bool is_first = pieces.starts_input && range.begin == 0;
    write(std::string_view(pieces.text).substr(range.begin, range.end - range.begin), is_first,
          text);
    range = {begin, static_cast<uint32_t>(text.size())};
  }
  pieces.text = std::move(text);
}

void split_all(const Regex& pattern, SplitBehavior behavior, bool invert, Pieces& pieces,
               RegexScratch& scratch) {
  std::vector<ByteRange> out, matches;
  for (const ByteRange& range : pieces.ranges) {
    pattern.find_all(std::string_view(pieces.text).substr(range.begin, range.end - range.begin),
                     scratch, matches);
    split_range(range, matches, behavior, invert, out);
  }
  pieces.ranges = std::move(out);
}

void to_byte_level(Pieces& pieces) {
  std::array<std::string, 256> utf8;
  for (unsigned byte = 0; byte < 256; ++byte) append_utf8(utf8[byte], alphabet().char_of[byte]);
  rewrite(pieces, [&utf8](std::string_view piece, bool, std::string& out) {
    for (const char c : piece) out += utf8[static_cast<unsigned char>(c)];
  });
}

void metaspace(const PreTokenizerSpec& spec, Pieces& pieces) {
  rewrite(pieces, [&spec](std::string_view piece, bool is_first, std::string& out) {
    const bool starts_with_it = piece.starts_with(' ') || piece.starts_with(spec.replacement);
    const bool wants_it = spec.prepend_scheme == PrependScheme::kAlways ||
                          (spec.prepend_scheme == PrependScheme::kFirst && is_first);
    if (wants_it && !starts_with_it) out += spec.replacement;
    for (const char c : piece) {
      if (c == ' ') {
        out += spec.replacement;
      } else {
        out += c;
      }
    }
  });
}

std::unique_ptr<const Regex> pattern_of(const PreTokenizerSpec& spec) {
  const auto own = [](std::string_view pattern) {
    return std::make_unique<const Regex>(Regex::from_pcre(pattern, "pre_tokenizer"));
  };
  switch (spec.kind) {
    case PreTokenizerKind::kSplit:
      return std::make_unique<const Regex>(
          spec.pattern.is_regex ? Regex::from_oniguruma(spec.pattern.text, spec.pattern.where)
                                : Regex::literal(spec.pattern.text, spec.pattern.where));
    case PreTokenizerKind::kByteLevel:
      if (!spec.use_regex) return nullptr;
      return std::make_unique<const Regex>(Regex::from_oniguruma(kGpt2Pattern, "ByteLevel"));
    case PreTokenizerKind::kDigits:
      return own(R"(\p{N})");
    case PreTokenizerKind::kMetaspace:
      return std::make_unique<const Regex>(Regex::literal(spec.replacement, "Metaspace"));
    case PreTokenizerKind::kPunctuation:
      return own(R"([\p{P}!-/:-@\[-`{-~])");
    case PreTokenizerKind::kWhitespace: {
      const std::string word(kWordClass);
      return own("[" + word + "]+|[^" + word + R"(\p{White_Space}]+)");
    }
    case PreTokenizerKind::kWhitespaceSplit:
      return own(R"(\p{White_Space})");
  }
  return nullptr;
}

}  // namespace

char32_t byte_level_char(unsigned char byte) { return alphabet().char_of[byte]; }

int byte_of_level_char(char32_t code_point) {
  return code_point < 0x144 ? alphabet().byte_of[code_point] : -1;
}

void split_range(ByteRange range, const std::vector<ByteRange>& matches, SplitBehavior behavior,
                 bool invert, std::vector<ByteRange>& out) {
  const auto push = [&out](ByteRange piece) {
    if (piece.begin != piece.end) out.push_back(piece);
  };
  std::vector<Chunk> chunks = cover(range, matches, invert);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    const bool follows = i > 0, was_match = follows && chunks[i - 1].is_match;
    switch (behavior) {
      case SplitBehavior::kIsolated:
        push(chunk.range);
        break;
      case SplitBehavior::kRemoved:
        if (!chunk.is_match) push(chunk.range);
        break;
      case SplitBehavior::kContiguous: {
        uint32_t end = chunk.range.end;
        while (i + 1 < chunks.size() && chunks[i + 1].is_match == chunk.is_match) {
          end = chunks[++i].range.end;
        }
        push({chunk.range.begin, end});
        break;
      }
      case SplitBehavior::kMergedWithPrevious: {
        if (chunk.is_match && follows && !was_match) break;  // went with the one before
        const bool takes_next = !chunk.is_match && i + 1 < chunks.size() && chunks[i + 1].is_match;
        push({chunk.range.begin, takes_next ? chunks[i + 1].range.end : chunk.range.end});
        break;
      }
      case SplitBehavior::kMergedWithNext: {
        if (!chunk.is_match && was_match) break;  // went with the one before
        const bool takes_next = chunk.is_match && i + 1 < chunks.size() && !chunks[i + 1].is_match;
        push({chunk.range.begin, takes_next ? chunks[i + 1].range.end : chunk.range.end});
        break;
      }
    }
  }
}

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerSpec>& steps) {
  for (const PreTokenizerSpec& spec : steps) steps_.push_back({spec, pattern_of(spec)});
}

void PreTokenizer::apply(Pieces& pieces, RegexScratch& scratch) const {
  for (const Step& step : steps_) apply_step(step, pieces, scratch);
}

void PreTokenizer::apply_step(const Step& step, Pieces& pieces, RegexScratch& scratch) {
  const PreTokenizerSpec& spec = step.spec;
  switch (spec.kind) {
    case PreTokenizerKind::kByteLevel:
      if (spec.add_prefix_space) {
        rewrite(pieces, [](std::string_view piece, bool, std::string& out) {
          if (!piece.starts_with(' ')) out += ' ';
          out += piece;
        });
      }
      if (step.pattern) split_all(*step.pattern, SplitBehavior::kIsolated, false, pieces, scratch);
      to_byte_level(pieces);
      return;
    case PreTokenizerKind::kMetaspace:
      metaspace(spec, pieces);
      if (!spec.split) return;
      return split_all(*step.pattern, SplitBehavior::kMergedWithNext, false, pieces, scratch);
    case PreTokenizerKind::kSplit:
      return split_all(*step.pattern, spec.behavior, spec.invert, pieces, scratch);
    case PreTokenizerKind::kPunctuation:
      return split_all(*step.pattern, spec.behavior, false, pieces, scratch);
    case PreTokenizerKind::kDigits: {
      const auto behavior =
          spec.individual_digits ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
      return split_all(*step.pattern, behavior, false, pieces, scratch);
    }
    case PreTokenizerKind::kWhitespace:
      return split_all(*step.pattern, SplitBehavior::kRemoved, true, pieces, scratch);
    case PreTokenizerKind::kWhitespaceSplit:
      return split_all(*step.pattern, SplitBehavior::kRemoved, false, pieces, scratch);
  }
}

}  // namespace colibri
