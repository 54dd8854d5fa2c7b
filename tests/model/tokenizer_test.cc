// The tokenizer by hand: vocabularies small enough to follow with a finger.
#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"

namespace colibri {
namespace {

using Ids = std::vector<int32_t>;

// a b c d: 0 to 3, then merges "ab" (rank 0) and "abc" (rank 1), "cd" (rank 2).
const std::string kModel =
    R"("type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "abc": 5, "cd": 6},
       "merges": ["a b", ["ab", "c"], "c d"])";

std::string json_of(const std::string& model, const std::string& sections = "") {
  return "{\"model\": {" + model + "}" + (sections.empty() ? "" : ", " + sections) + "}";
}

Tokenizer make(const std::string& model, const std::string& sections = "",
               const std::string& config = "") {
  return Tokenizer::from_json(json_of(model, sections), config);
}

void expect_error(ErrorKind kind, const std::string& part, const std::string& json,
                  const std::string& config = "") {
  try {
    Tokenizer::from_json(json, config);
    ADD_FAILURE() << "no error for " << json.substr(0, 200);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(TokenizerTest, BestMergeGoesFirstThenTheLeftmost) {
  const Tokenizer tokenizer = make(kModel);
  EXPECT_EQ(tokenizer.encode("abcd"), (Ids{5, 3}));  // ab, then abc; cd comes too late
  EXPECT_EQ(tokenizer.encode("cdabab"), (Ids{6, 4, 4}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(TokenizerTest, OverlappingPairsMergeFromTheLeft) {
  const Tokenizer tokenizer = make(R"("vocab": {"a": 0, "aa": 1}, "merges": ["a a"])");
  EXPECT_EQ(tokenizer.encode("aaaaa"), (Ids{1, 1, 0}));
}

TEST(TokenizerTest, AMergeThatIsListedTwiceHasItsLaterRank) {
  const Tokenizer tokenizer = make(
      R"("vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4}, "merges": ["a b", "b c", "a b"])");
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{0, 4}));
}

TEST(TokenizerTest, UnknownCharactersVanishWithoutUnkToken) {
  EXPECT_EQ(make(kModel).encode("axb"), (Ids{4}));
}

TEST(TokenizerTest, FuseUnkMakesOneTokenOfARun) {
  const std::string model = R"("vocab": {"a": 0, "?": 1}, "merges": [], "unk_token": "?")";
  EXPECT_EQ(make(model).encode("xya"), (Ids{1, 1, 0}));
  EXPECT_EQ(make(model + R"(, "fuse_unk": true)").encode("xyaz"), (Ids{1, 0, 1}));
}

TEST(TokenizerTest, ByteFallbackNeedsAllBytesOfACharacter) {
  const Tokenizer tokenizer = make(
      R"("vocab": {"?": 0, "<0xC3>": 1, "<0xA9>": 2}, "merges": [], "unk_token": "?", "byte_fallback": true)");
  EXPECT_EQ(tokenizer.encode("\xc3\xa9"), (Ids{1, 2}));
  EXPECT_EQ(tokenizer.encode("\xc3\xa8"), (Ids{0}));
}

TEST(TokenizerTest, IgnoreMergesTakesAWholePieceThatIsAToken) {
  const std::string model =
      R"("vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b"], "ignore_merges": )";
  EXPECT_EQ(make(model + "false").encode("abc"), (Ids{3, 2}));
  EXPECT_EQ(make(model + "true").encode("abc"), (Ids{4}));
}

TEST(TokenizerTest, InvalidUtf8IsReadAsReplacementCharacters) {
  const Tokenizer tokenizer = make(R"("vocab": {"a": 0, "\ufffd": 1}, "merges": [])");
  EXPECT_EQ(tokenizer.encode("a\xff"
                             "a"),
            (Ids{0, 1, 0}));
  EXPECT_EQ(tokenizer.encode("\xe4\xbd"
                             "a"),
            (Ids{1, 0}));                                       // one cut character: one
  EXPECT_EQ(tokenizer.encode("\xed\xa0\x80"), (Ids{1, 1, 1}));  // a surrogate: one a byte
  EXPECT_EQ(tokenizer.encode("\xf0\x9f\x98"), (Ids{1}));
}

TEST(TokenizerTest, AddedTokensAreCutOutLongestFirst) {
  const Tokenizer tokenizer = make(kModel, R"("added_tokens": [
      {"id": 7, "content": "<x>", "special": true}, {"id": 8, "content": "<x>>", "special": false,
                                                    "normalized": false}])");
  EXPECT_EQ(tokenizer.encode("ab<x>>c<x>d"), (Ids{4, 8, 2, 7, 3}));
  EXPECT_EQ(tokenizer.vocab_size(), 9);
  EXPECT_TRUE(tokenizer.is_special(7));
  EXPECT_FALSE(tokenizer.is_special(8));
  EXPECT_EQ(tokenizer.token_to_id("<x>>"), 8);
  EXPECT_EQ(tokenizer.token_to_id("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Ids{4, 7, 2}, true), "ab c");  // no decoder: joined by spaces
  EXPECT_EQ(tokenizer.decode(Ids{4, 7, 2}, false), "ab <x> c");
}

TEST(TokenizerTest, SingleWordTokensDoNotMatchInsideWords) {
  const Tokenizer tokenizer =
      make(kModel, R"("added_tokens": [{"id": 7, "content": "cc", "single_word": true}])");
  EXPECT_EQ(tokenizer.encode("cc"), (Ids{7}));
  EXPECT_EQ(tokenizer.encode("ccd"), (Ids{2, 6})) << "unchanged inside a word";
}

TEST(TokenizerTest, AddedTokenMayBeAVocabularyToken) {
  const Tokenizer tokenizer =
      make(kModel, R"("added_tokens": [{"id": 2, "content": "c", "special": true}])");
  EXPECT_EQ(tokenizer.encode("abcd"), (Ids{4, 2, 3}));
}

TEST(TokenizerTest, TemplateStandsAroundTheTextOnlyWhenAsked) {
  const Tokenizer tokenizer = make(kModel, R"("post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "E", "type_id": 0}}],
      "special_tokens": {"B": {"id": "B", "ids": [0], "tokens": ["a"]},
                         "E": {"id": "E", "ids": [1, 2], "tokens": ["b", "c"]}}})");
  EXPECT_EQ(tokenizer.encode("d"), (Ids{0, 3, 1, 2}));
  EXPECT_EQ(tokenizer.encode("d", false), (Ids{3}));
}

TEST(TokenizerTest, LlamaClassesAddBosByDefault) {
  const std::string added = R"("added_tokens": [{"id": 7, "content": "<s>", "special": true}])";
  EXPECT_EQ(make(kModel, added, R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>"})")
                .encode("a"),
            (Ids{7, 0}));
  EXPECT_EQ(
      make(
          kModel, added,
          R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>", "add_bos_token": false})")
          .encode("a"),
      (Ids{0}));
  EXPECT_EQ(make(kModel, added, R"({"tokenizer_class": "Qwen2Tokenizer", "bos_token": "<s>"})")
                .encode("a"),
            (Ids{0}));
  EXPECT_EQ(make(kModel, added, R"({"eos_token": {"content": "<s>"}, "add_eos_token": true})")
                .encode("a"),
            (Ids{0, 7}));
}

TEST(TokenizerTest, OfSeveralTemplatesTheOnesForChatAndForToolsAreKept) {
  const Tokenizer tokenizer = make(kModel, "", R"({"chat_template": [
      {"name": "rag", "template": "r"}, {"name": "tool_use", "template": "t"},
      {"name": "default", "template": "d"}]})");
  EXPECT_EQ(tokenizer.chat_template(), "d");
  EXPECT_EQ(tokenizer.tool_chat_template(), "t");
}

TEST(TokenizerTest, ConfigAddsTokensAndKeepsTheTemplateRaw) {
  const Tokenizer tokenizer = make(kModel, "", R"({"eos_token": "<e>", "bos_token": null,
      "chat_template": "{{ x }}", "added_tokens_decoder": {"9": {"content": "<p>", "special": true}}})");
  EXPECT_EQ(tokenizer.encode("a<p>"), (Ids{0, 9}));
  EXPECT_EQ(tokenizer.eos_id(), 10);
  EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer.chat_template(), "{{ x }}");
  EXPECT_EQ(tokenizer.tool_chat_template(), "");
  EXPECT_EQ(tokenizer.vocab_size(), 11);
}

TEST(TokenizerTest, MetaspaceFirstPrependsOnlyAtTheBeginning) {
  const std::string model = R"("vocab": {"▁": 0, "a": 1}, "merges": [])";
  const std::string added = R"("added_tokens": [{"id": 5, "content": "|"}], )";
  const std::string section =
      R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": )";
  EXPECT_EQ(make(model, added + section + "\"first\"}").encode("a|a a"), (Ids{0, 1, 5, 1, 0, 1}));
  EXPECT_EQ(make(model, added + section + "\"always\"}").encode("a|a"), (Ids{0, 1, 5, 0, 1}));
  EXPECT_EQ(make(model, added + section + "\"never\"}").encode("a|a"), (Ids{1, 5, 1}));
}

TEST(TokenizerTest, OneTokenizerServesSeveralThreads) {
  const Tokenizer tokenizer = Tokenizer::load(COLIBRI_SOURCE_DIR "/configs/models/demo");
  const std::string text = "def f(x):\n    return 'naïve 😀 ' * 3\n";
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = tokenizer.encode(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, tokenizer.encode(text));
  EXPECT_EQ(tokenizer.decode(results[0], false), text);
}

TEST(TokenizerTest, ASplitThatNeedsTooManyStepsIsAnError) {
  const Tokenizer tokenizer =
      make(kModel, R"json("pre_tokenizer": {"type": "Split", "invert": false,
      "behavior": "Isolated", "pattern": {"Regex": "(?:a|a?)+(?=[bc])"}})json");
  EXPECT_EQ(tokenizer.encode("aab"), (Ids{0, 0, 1}));
  EXPECT_THROW(tokenizer.encode(std::string(100, 'a')), Error);
}

TEST(TokenizerErrorTest, MissingFileNamesThePathAndTheFix) {
  try {
    Tokenizer::load("/nonexistent/model");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/model/tokenizer.json"),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("copy it there"), std::string::npos);
  }
}

TEST(TokenizerErrorTest, UnsupportedPartsAreRefusedByName) {
  const auto refuses = [](const std::string& part, const std::string& json) {
    expect_error(ErrorKind::kUnsupported, part, json);
  };
  refuses("WordPiece", json_of(R"("type": "WordPiece", "vocab": {"a": 0})"));
  refuses("Unigram", json_of(R"("type": "Unigram", "vocab": [["a", 0.5]])"));
  refuses("/model/dropout", json_of(kModel + R"(, "dropout": 0.1)"));
  refuses("/model/end_of_word_suffix", json_of(kModel + R"(, "end_of_word_suffix": "</w>")"));
  refuses("/normalizer/normalizers/1: normalizer \"BertNormalizer\"",
          json_of(kModel, R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
                                           {"type": "BertNormalizer"}]})"));
  refuses("/pre_tokenizer: pre_tokenizer \"UnicodeScripts\"",
          json_of(kModel, R"("pre_tokenizer": {"type": "UnicodeScripts"})"));
  refuses("/decoder: decoder \"CTC\"", json_of(kModel, R"("decoder": {"type": "CTC"})"));
  refuses("/post_processor: post_processor \"BertProcessing\"",
          json_of(kModel, R"("post_processor": {"type": "BertProcessing"})"));
  for (const char* pattern :
       {"a\\\\Kb", "(?<n>a)", "[a[b]]", "[a&&b]", "(*F)", "a{,3}", "a{2}+", "\\\\xff"}) {
    refuses("/pre_tokenizer/pattern", json_of(kModel, R"("pre_tokenizer": {"type": "Split",
        "behavior": "Isolated", "pattern": {"Regex": ")" + std::string(pattern) +
                                                          "\"}}"));
  }
}

TEST(TokenizerErrorTest, WrongFilesAreRefusedWithTheirPlace) {
  const auto rejects = [](const std::string& part, const std::string& json) {
    expect_error(ErrorKind::kInput, part, json);
  };
  rejects("not JSON", "");
  rejects("not JSON", "version https://git-lfs.github.com/spec/v1\n");
  rejects("not JSON at byte 13", R"({"model": {},})"
                                 "x");
  rejects("not UTF-8", "{\"a\": \"\xff\"}");
  rejects("surrogate", R"({"a": "\ud800"})");
  rejects("appears twice in one object", R"({"a": 1, "a": 2})");
  rejects("object at the top", "[]");
  rejects("no \"model\"", "{}");
  rejects("/model/vocab is empty", json_of(R"("vocab": {}, "merges": [])"));
  rejects("nested deeper", json_of(kModel, "\"normalizer\": " + std::string(100000, '[')));
  rejects("appears twice, with ids 0 and 1", json_of(R"("vocab": {"a": 0, "a": 1}, "merges": [])"));
  rejects("id 0 belongs to token \"a\" and to \"b\"", json_of(R"("vocab": {"a": 0, "b": 0})"));
  rejects("has id -1", json_of(R"("vocab": {"a": -1})"));
  rejects("want [0, 16777216)", json_of(R"("vocab": {"a": 16777216})"));
  rejects("\"a\" has no whole number", json_of(R"("vocab": {"a": 18446744073709551615})"));
  rejects("\"a\" has no whole number", json_of(R"("vocab": {"a": 1.5})"));
  rejects("/model/merges/0 needs token \"x\"", json_of(R"("vocab": {"a": 0}, "merges": ["a x"])"));
  rejects("needs token \"aa\"", json_of(R"("vocab": {"a": 0}, "merges": ["a a"])"));
  rejects("want two tokens", json_of(R"("vocab": {"a": 0}, "merges": ["a"])"));
  rejects("want two tokens", json_of(R"("vocab": {"a": 0}, "merges": [["a", "a", "a"]])"));
  rejects("want two tokens", json_of(R"("vocab": {"a": 0}, "merges": [1])"));
  rejects("unk_token", json_of(R"("vocab": {"a": 0}, "unk_token": "u")"));
  rejects("/model/vocab gives it 0",
          json_of(kModel, R"("added_tokens": [{"id": 9, "content": "a"}])"));
  rejects("which /model/vocab gives to \"a\"",
          json_of(kModel, R"("added_tokens": [{"id": 0, "content": "new"}])"));
  rejects("appears twice", json_of(kModel, R"("added_tokens": [{"id": 8, "content": "x"},
                                                               {"id": 8, "content": "y"}])"));
  rejects("/normalizer/type is 3", json_of(kModel, R"("normalizer": {"type": 3})"));
  rejects("adds id 99", json_of(kModel, R"("post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "B"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"B": {"ids": [99]}}})"));
  expect_error(ErrorKind::kInput, "tokenizer_config.json", json_of(kModel), "{");
}

}  // namespace
}  // namespace colibri
