#include "model/detokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "model/tokenizer.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

using Ids = std::vector<int32_t>;

// Ids: 0 to 3 are the bytes of an emoji (U+1F600) in the byte-level alphabet, 4 "hi", 5 a special.
Tokenizer byte_level() {
  return Tokenizer::from_json(R"({"model": {"vocab": {"ð": 0, "Ł": 1, "ĺ": 2, "Ģ": 3, "hi": 4}},
      "added_tokens": [{"id": 5, "content": "<e>", "special": true}],
      "decoder": {"type": "ByteLevel"}})",
                              "");
}

// Ids: 0 to 255 the bytes, 256 "▁a", 257 "b", 258 "▁".
Tokenizer byte_fallback(const std::string& decoders) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    char entry[24];
    std::snprintf(entry, sizeof entry, "\"<0x%02X>\": %d, ", byte, byte);
    vocab += entry;
  }
  return Tokenizer::from_json("{\"model\": {\"vocab\": {" + vocab +
                                  R"("▁a": 256, "b": 257, "▁": 258}}, "decoder": )" + decoders +
                                  "}",
                              "");
}

const char* const kMixtral = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";

TEST(DetokenizerTest, BytesOfACharacterComeOutTogether) {
  const Tokenizer tokenizer = byte_level();
  Detokenizer stream(tokenizer, false);
  EXPECT_EQ(stream.push(4), "hi");
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(3), "\xf0\x9f\x98\x80");
  EXPECT_EQ(stream.finish(), "");
}

TEST(DetokenizerTest, TokenHasItsOwnBytesAlsoWithinACharacter) {
  const Tokenizer levels = byte_level();
  EXPECT_EQ(levels.token_bytes(1), "\x9f");
  EXPECT_EQ(levels.token_bytes(4), "hi");
  EXPECT_EQ(levels.token_bytes(5), "<e>");
  EXPECT_EQ(levels.token_bytes(77), "");
  const Tokenizer fallback = byte_fallback(kMixtral);
  EXPECT_EQ(fallback.token_bytes(0xf0), "\xf0");
  EXPECT_EQ(fallback.token_bytes(256), " a");  // also where it comes first
  EXPECT_EQ(byte_fallback(R"({"type": "Metaspace", "replacement": "▁"})").token_bytes(256), " a");
}

TEST(DetokenizerTest, UnfinishedBytesBecomeOneReplacementCharacter) {
  const Tokenizer tokenizer = byte_level();
  Detokenizer stream(tokenizer, false);
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.push(4), "\xef\xbf\xbdhi");
  EXPECT_EQ(stream.push(0), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
}

TEST(DetokenizerTest, SpecialTokensAreSkippedOnRequestAndUnknownIdsAlways) {
  const Tokenizer tokenizer = byte_level();
  Detokenizer with(tokenizer, false), without(tokenizer, true);
  EXPECT_EQ(with.push(5), "<e>");
  EXPECT_EQ(without.push(5), "");
  EXPECT_EQ(with.push(-1), "");
  EXPECT_EQ(with.push(77), "");
}

TEST(DetokenizerTest, ByteRunIsHeldUntilItEnds) {
  const Tokenizer tokenizer = byte_fallback(kMixtral);
  Detokenizer stream(tokenizer, false);
  EXPECT_EQ(stream.push(256), "a");  // the first space is stripped
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.push(0xa9), "");
  EXPECT_EQ(stream.push(256), "\xc3\xa9 a");
  EXPECT_EQ(stream.push(0x41), "");
  EXPECT_EQ(stream.push(0xff), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd\xef\xbf\xbd") << "one wrong byte spoils the run";
}

TEST(DetokenizerTest, StripTakesOnlyTheFirstSpaceOfTheWholeText) {
  const Tokenizer tokenizer = byte_fallback(kMixtral);
  EXPECT_EQ(tokenizer.decode(Ids{258, 258, 257, 258}, false), " b ");
}

TEST(DetokenizerTest, StripAtTheEndHoldsBackWhatItMayTake) {
  const Tokenizer tokenizer = byte_fallback(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
      {"type": "Strip", "content": "b", "start": 1, "stop": 2}]})");
  Detokenizer stream(tokenizer, false);
  EXPECT_EQ(stream.push(257), "");  // cut at the beginning
  EXPECT_EQ(stream.push(258), "▁");
  EXPECT_EQ(stream.push(257), "");  // may be cut at the end
  EXPECT_EQ(stream.push(257), "");
  EXPECT_EQ(stream.push(257), "b");  // two of three can still be cut
  EXPECT_EQ(stream.finish(), "");
}

TEST(DetokenizerTest, ReplaceBehindFuseSeesAcrossTokens) {
  const Tokenizer tokenizer = byte_fallback(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
      {"type": "Replace", "pattern": {"String": "bb▁"}, "content": "X"}]})");
  EXPECT_EQ(tokenizer.decode(Ids{257, 257, 257, 258, 257}, false), "bXb");
}

TEST(DetokenizerTest, MetaspaceDropsTheFirstTokensSpaces) {
  const Tokenizer tokenizer = byte_fallback(R"({"type": "Metaspace", "replacement": "▁"})");
  EXPECT_EQ(tokenizer.decode(Ids{256, 256, 258}, false), "a a ");
}

TEST(DetokenizerTest, FinishStartsAfresh) {
  const Tokenizer tokenizer = byte_fallback(kMixtral);
  Detokenizer stream(tokenizer, false);
  EXPECT_EQ(stream.push(256), "a");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(256), "a");
}

TEST(DetokenizerTest, EveryPartIsWellFormedAndTogetherTheyAreTheText) {
  const Tokenizer tokenizer = Tokenizer::load(COLIBRI_SOURCE_DIR "/configs/models/demo");
  const std::string text = "😀 naïve 你好 \xef\xbf\xbd<|im_start|>\n";
  Detokenizer stream(tokenizer, false);
  std::string joined;
  for (const int32_t id : tokenizer.encode(text)) {
    const std::string part = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(part));
    joined += part;
  }
  EXPECT_EQ(joined + stream.finish(), text);
}

TEST(DetokenizerTest, RegexBehindFuseIsRefused) {
  EXPECT_THROW(byte_fallback(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
      {"type": "Replace", "pattern": {"Regex": "b+"}, "content": "X"}]})"),
               Error);
}

}  // namespace
}  // namespace colibri
