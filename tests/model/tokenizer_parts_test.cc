// Normalizer, pre-tokenizer, regular expressions and UTF-8, each by itself.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "model/normalizer.h"
#include "model/pretokenizer.h"
#include "model/tokenizer_regex.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

NormalizerSpec of(NormalizerKind kind) {
  NormalizerSpec spec;
  spec.kind = kind;
  return spec;
}

std::string normalize(NormalizerSpec spec, const std::string& text) {
  RegexScratch scratch;
  bool keeps_start = true;
  return Normalizer({std::move(spec)}).apply(text, scratch, keeps_start);
}

std::string join(const std::vector<PreTokenizerSpec>& steps, const std::string& text) {
  RegexScratch scratch;
  Pieces pieces{text, {{0, static_cast<uint32_t>(text.size())}}, true};
  PreTokenizer(steps).apply(pieces, scratch);
  std::string out;
  for (const ByteRange& range : pieces.ranges) {
    if (!out.empty()) out += '|';
    out += pieces.text.substr(range.begin, range.end - range.begin);
  }
  return out;
}

std::string split(SplitBehavior behavior, bool invert, const std::string& text) {
  PreTokenizerSpec spec;
  spec.kind = PreTokenizerKind::kSplit;
  spec.pattern = {"-", false, "test"};
  spec.behavior = behavior;
  spec.invert = invert;
  return join({spec}, text);
}

TEST(PreTokenizerTest, SplitBehaviorsCutAsTheirNamesSay) {
  const std::string text = "the-final--countdown";
  EXPECT_EQ(split(SplitBehavior::kRemoved, false, text), "the|final|countdown");
  EXPECT_EQ(split(SplitBehavior::kIsolated, false, text), "the|-|final|-|-|countdown");
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious, false, text), "the-|final-|-|countdown");
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext, false, text), "the|-final|-|-countdown");
  EXPECT_EQ(split(SplitBehavior::kContiguous, false, text), "the|-|final|--|countdown");
  EXPECT_EQ(split(SplitBehavior::kRemoved, true, text), "-|-|-");
}

TEST(PreTokenizerTest, ByteLevelSplitsLikeGpt2AndSpellsBytes) {
  PreTokenizerSpec spec;
  spec.kind = PreTokenizerKind::kByteLevel;
  EXPECT_EQ(join({spec}, "it's  42\n"), "it|'s|Ġ|Ġ42|Ċ");
  spec.add_prefix_space = true;
  EXPECT_EQ(join({spec}, "é"), "ĠÃ©");
}

TEST(PreTokenizerTest, DigitsAreCutOneByOneOrTogether) {
  PreTokenizerSpec spec;
  spec.kind = PreTokenizerKind::kDigits;
  EXPECT_EQ(join({spec}, "a12b3"), "a|12|b|3");
  spec.individual_digits = true;
  EXPECT_EQ(join({spec}, "a12b3"), "a|1|2|b|3");
}

TEST(NormalizerTest, CanonicalFormsComposeAndDecompose) {
  EXPECT_EQ(normalize(of(NormalizerKind::kNfc), "e\u0301\u0323"), "\u1eb9\u0301");
  EXPECT_EQ(normalize(of(NormalizerKind::kNfd), "\u1ec7"), "e\u0323\u0302");
  EXPECT_EQ(normalize(of(NormalizerKind::kNfkc), "\ufb01"), "fi");
  EXPECT_EQ(normalize(of(NormalizerKind::kNfc), "\uac00\u11a8"), "\uac01");
}

TEST(NormalizerTest, MarksAddedAfterUnicode9AreNotReordered) {
  EXPECT_EQ(normalize(of(NormalizerKind::kNfd), "a\u1ac1\u0323"), "a\u1ac1\u0323");
  EXPECT_EQ(normalize(of(NormalizerKind::kNfd), "a\u0301\u0323"), "a\u0323\u0301");
}

TEST(NormalizerTest, LowercaseGoesCharacterByCharacter) {
  EXPECT_EQ(normalize(of(NormalizerKind::kLowercase), "ÀΣİ"), "àσi\u0307");
}

TEST(NormalizerTest, StripSparesTheOtherSide) {
  NormalizerSpec spec = of(NormalizerKind::kStrip);
  spec.strip_left = true;
  EXPECT_EQ(normalize(spec, "\u3000 a "), "a ");
  spec.strip_left = false;
  spec.strip_right = true;
  EXPECT_EQ(normalize(spec, " a\u00a0\n"), " a");
  EXPECT_EQ(normalize(spec, " \n"), "");
}

TEST(NormalizerTest, PrependLeavesEmptyTextEmpty) {
  NormalizerSpec spec = of(NormalizerKind::kPrepend);
  spec.content = "_";
  EXPECT_EQ(normalize(spec, "a"), "_a");
  EXPECT_EQ(normalize(spec, ""), "");
}

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  RegexScratch scratch;
  std::vector<ByteRange> ranges;
  Regex::from_oniguruma(pattern, "test").find_all(text, scratch, ranges);
  std::vector<std::string> out;
  for (const ByteRange& range : ranges)
    out.push_back(text.substr(range.begin, range.end - range.begin));
  return out;
}

TEST(TokenizerRegexTest, SpaceIsWhiteSpaceWithoutTheMongolianSeparator) {
  EXPECT_EQ(matches(R"(\s+)", "\u3000\u2028 \u180e\u0085"),
            (std::vector<std::string>{"\u3000\u2028 ", "\u0085"}));
}

TEST(TokenizerRegexTest, WordHasMarksAndRaisedDigitsButNoJoiner) {
  EXPECT_EQ(matches(R"(\w+)", "e\u0301\u00b2\u200da"),
            (std::vector<std::string>{"e\u0301\u00b2", "a"}));
}

TEST(TokenizerRegexTest, AnchorsMatchAtLines) {
  EXPECT_EQ(matches("^.", "a\nb"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(matches("(?m:a.b)", "a\nb"), (std::vector<std::string>{"a\nb"}));
}

TEST(TokenizerRegexTest, EmptyMatchDirectlyBehindAMatchIsLeftOut) {
  EXPECT_EQ(matches("a*", "baac"), (std::vector<std::string>{"", "aa", ""}));
}

TEST(TokenizerUtf8Test, IncompleteSuffixCountsOnlyWhatCanGrow) {
  EXPECT_EQ(incomplete_utf8_suffix_bytes("a\xe4\xbd"), 2u);
  EXPECT_EQ(incomplete_utf8_suffix_bytes("a\xe4\xbd\xa0"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix_bytes("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_suffix_bytes("\xe0\x80"), 0u) << "overlong, no byte makes it good";
  EXPECT_EQ(incomplete_utf8_suffix_bytes("\x80"), 0u);
}

}  // namespace
}  // namespace colibri
