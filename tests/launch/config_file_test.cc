#include "launch/config_file.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "launch/run_config.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  // The command line `words`, with a file of this content as --config.
  ParsedCommandLine parse_with(const std::string& content, std::vector<std::string> words) {
    write_file(path(), content);
    words.insert(words.end(), {"--config", path().string()});
    return parse(words);
  }
  static ParsedCommandLine parse(const std::vector<std::string>& words) {
    std::vector<const char*> argv = {"colibri"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    return parse_command_line(static_cast<int>(argv.size()), argv.data());
  }
  RunConfig bench(const std::string& content, std::vector<std::string> words = {}) {
    words.insert(words.begin(), "bench");
    return parse_with(content, words).config;
  }
  std::filesystem::path path() const { return dir_ / "c.toml"; }

  TempDir dir_;
};

TEST_F(ConfigFileTest, ValuesOfEveryTypeReachTheirOptions) {
  const RunConfig config = bench(
      "model = \"m\"\nchunk = 7\nself-exchange = true\nno_probes = true\nbatch = [1, 4]\n"
      "new-tokens = 9\n");
  EXPECT_EQ(config.common.model, "m");
  EXPECT_EQ(config.common.chunk, 7);
  EXPECT_TRUE(config.common.self_exchange);
  EXPECT_FALSE(config.bench.probes);
  EXPECT_EQ(config.bench.batches, (std::vector<int>{1, 4}));
  EXPECT_EQ(config.bench.new_tokens, (std::vector<int64_t>{9}));
  const RunConfig generate =
      parse_with("temperature = 0.5\ntop_p = 1\nstop = [\"a,b\", \"[c]\"]\nseed = 3\n",
                 {"generate", "--model", "m", "--prompt", "x"})
          .config;
  EXPECT_EQ(generate.generate.temperature, 0.5);
  EXPECT_EQ(generate.generate.top_p, 1.0);
  EXPECT_EQ(generate.generate.stop, (std::vector<std::string>{"a,b", "[c]"}));
  EXPECT_EQ(generate.generate.seed, 3u);
}

TEST_F(ConfigFileTest, FlagWinsOverVariableAndVariableOverFileAndFileOverDefault) {
  const std::string file = "model = \"m\"\nchunk = 7\nmax_context = 11\n";
  ::setenv("COLIBRI_CHUNK", "9", 1);
  const RunConfig all = bench(file, {"--chunk", "3"}), by_variable = bench(file);
  ::unsetenv("COLIBRI_CHUNK");
  const RunConfig by_file = bench(file);
  EXPECT_EQ(all.common.chunk, 3);
  EXPECT_EQ(by_variable.common.chunk, 9);
  EXPECT_EQ(by_file.common.chunk, 7);
  EXPECT_EQ(by_file.common.max_context, 11);
  EXPECT_EQ(by_file.common.step_timeout_s, 30);
}

TEST_F(ConfigFileTest, TableOfTheVerbWinsOverTheTopAndOtherTablesAreNotItsOwn) {
  const RunConfig config = bench(
      "model = \"m\"\nchunk = 7\n[bench]\nchunk = 8\n[generate]\nchunk = 9\nmax_tokens = 3\n");
  EXPECT_EQ(config.common.chunk, 8);
}

TEST_F(ConfigFileTest, KeysThatOtherVerbsHaveAreFineAtTheTop) {
  EXPECT_EQ(bench("model = \"m\"\nmax_tokens = 5\nsource = \"d\"\n").common.model, "m");
}

TEST_F(ConfigFileTest, WhatTheCommandLineContradictsStandsBack) {
  const RunConfig shape = bench("model = \"m\"\n", {"--shape", "demo"});
  EXPECT_EQ(shape.common.model, "");
  EXPECT_EQ(bench("shape = \"demo\"\nlayers = 2\n", {"--model", "m"}).common.layers, 0);
  const RunConfig prompt =
      parse_with("prompt = \"a\"\n", {"generate", "--model", "m", "--prompt-ids", "1"}).config;
  EXPECT_FALSE(prompt.generate.has_prompt);
  const RunConfig score = parse_with("document = \"a\"\ncontinuation = \"b\"\n",
                                     {"score", "--model", "m", "--requests", "r"})
                              .config;
  EXPECT_EQ(score.score.document, "");
  EXPECT_TRUE(score.score.continuations.empty());
}

TEST_F(ConfigFileTest, ErrorsNameFileLineKeyAndWhatWasWanted) {
  const std::string where = path().string() + " line 2: ";
  EXPECT_ERROR(bench("# c\nchunk = \"ten\"\n"), kInput,
               where + "key 'chunk' is \"ten\", want an integer");
  EXPECT_ERROR(bench("\nchunk = 1.5\n"), kInput, where + "key 'chunk' is 1.5, want an integer");
  EXPECT_ERROR(bench("\nmodel = 3\n"), kInput, where + "key 'model' is 3, want a string");
  EXPECT_ERROR(bench("\nself_exchange = 1\n"), kInput, "is 1, want true or false");
  EXPECT_ERROR(bench("\nchunk = [1]\n"), kInput, "key 'chunk' is [1], want an integer");
  EXPECT_ERROR(bench("\nbatch = [1, \"2\"]\n"), kInput,
               "key 'batch' is [1, \"2\"], want an integer or a list of such");
  EXPECT_ERROR(bench("\nbatch = []\n"), kInput, where + "key 'batch' is an empty list");
  EXPECT_ERROR(bench("\nbatch = [5000000000]\n"), kInput, where + "key 'batch' is [5000000000]");
  EXPECT_ERROR(bench("\nchunk = 2026-11-30\n"), kInput, "'chunk' holds a date or time");
  EXPECT_ERROR(bench("\nbatch = [[1]]\n"), kInput, "'batch' holds a list in a list");
  EXPECT_ERROR(bench("[bench]\nchunk.x = 1\n"), kInput, where + "key 'chunk' holds a table");
}

TEST_F(ConfigFileTest, UnknownKeysAndTablesAreNamed) {
  EXPECT_ERROR(bench("\nchunks = 1\n"), kInput, "line 2: key 'chunks' is an option of no verb");
  EXPECT_ERROR(bench("[bench]\nmax_tokens = 1\n"), kInput, "'max-tokens' is no option of bench");
  EXPECT_ERROR(bench("[generate]\nbatch = 1\n"), kInput, "'batch' is no option of generate");
  EXPECT_ERROR(bench("[benches]\nchunk = 1\n"), kInput, "table [benches], want one of generate");
  EXPECT_ERROR(bench("config = \"x\"\n"), kInput, "key 'config'");
  EXPECT_ERROR(bench("help = true\n"), kInput, "key 'help'");
  EXPECT_ERROR(bench("max-context = 1\nmax_context = 2\n"), kInput,
               "line 2: key 'max-context' is given twice, also in line 1");
}

TEST_F(ConfigFileTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_ERROR(bench("chunk = \n"), kInput, "line 1 is no TOML");
  EXPECT_ERROR(bench("chunk = 1\nchunk = 2\n"), kInput, "line 2 is no TOML");
  EXPECT_ERROR(bench("model = \"\xff\"\n"), kInput, "is no TOML");
  EXPECT_ERROR(bench(std::string((1 << 20) + 1, '\n')), kInput, "more than 1048576 bytes");
  EXPECT_ERROR(parse({"bench", "--config", (dir_ / "no.toml").string()}), kInput, "no.toml");
  EXPECT_ERROR(parse({"bench", "--config", dir_.path().string()}), kInput, "not a file");
}

TEST_F(ConfigFileTest, DeepFilesAreErrorsAndNotTheEndOfTheStack) {
  std::string dots;
  for (int i = 0; i < 200000; ++i) dots += ".a";
  EXPECT_ERROR(bench("\na" + dots + " = 1\n"), kInput, "line 2: a key with many dots");
  EXPECT_ERROR(bench("[a" + dots + "]\n"), kInput, "many dots");
  EXPECT_ERROR(bench("x = {y" + dots + " = 1}\n"), kInput, "many dots");
  EXPECT_ERROR(bench("a = " + std::string(100000, '[')), kInput, "no TOML");
  // Dots in texts and comments are no keys'.
  const std::string text = "...................................... \\\" ...";
  EXPECT_EQ(bench("model = \"" + text + "\"  # " + text + "\nchunk = 7\n").common.chunk, 7);
  EXPECT_EQ(bench("model = \"\"\"\n" + text + "\n\"\"\"\nchunk = 7\n").common.chunk, 7);
  EXPECT_EQ(bench("model = '" + dots + "'\nchunk = 7\n").common.chunk, 7);
}

TEST_F(ConfigFileTest, CharactersOutsideAsciiStandInTextsAndCommentsOnly) {
  EXPECT_EQ(bench("\xef\xbb\xbfmodel = '\xc3\xa4'  # \xc3\xa4\nchunk = 7\n").common.chunk, 7);
  EXPECT_ERROR(bench("ki\xef\xbb\xbb = 1\n"), kInput, "line 1: a character outside ASCII");
  EXPECT_ERROR(bench("chunk = 7x\"\xc3\xa4\"\n"), kInput, "line 1: a character outside ASCII");
  EXPECT_ERROR(bench("chunk = [\n1.\"\xc3\xa4\"]\n"), kInput, "line 2: a character outside ASCII");
  EXPECT_ERROR(bench("\nmodel = \"\"\"m\"\"\"\"\xef\xbb\xbb\n"), kInput,
               "line 2: a character outside");
}

TEST_F(ConfigFileTest, NumbersOfAFileAreHeldAgainstTheirRanges) {
  EXPECT_ERROR(bench("model = \"m\"\nchunk = 0\n"), kInput, "--chunk is 0, want 1 to");
}

TEST_F(ConfigFileTest, PrintedConfigurationReadsBackAsItself) {
  const std::vector<std::string> words = {"generate",
                                          "--model",
                                          "a \"b\"\\\n\x01",
                                          "--prompt",
                                          "x",
                                          "--temperature",
                                          "0.1",
                                          "--seed",
                                          "18446744073709551615",
                                          "--stop",
                                          "a,b",
                                          "--stop",
                                          "[c]",
                                          "--self-exchange",
                                          "--chunk",
                                          "0x10",
                                          "--print-config"};
  const ParsedCommandLine first = parse(words);
  EXPECT_TRUE(first.wants_text);
  const ParsedCommandLine second = parse_with(first.text, {"generate", "--print-config"});
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(second.config.common.model, "a \"b\"\\\n\x01");
  EXPECT_EQ(second.config.generate.seed, UINT64_MAX);
  EXPECT_EQ(second.config.generate.temperature, 0.1);
  EXPECT_EQ(second.config.generate.stop, (std::vector<std::string>{"a,b", "[c]"}));
  EXPECT_EQ(second.config.common.chunk, 16);
  EXPECT_TRUE(second.config.common.self_exchange);
}

TEST_F(ConfigFileTest, PrintedConfigurationHoldsListsFlagsAndDefaults) {
  const std::string text =
      parse({"bench", "--shape", "demo", "-b", "1,4", "--no-probes", "--print-config"}).text;
  for (const char* line :
       {"[bench]\n", "\nshape = \"demo\"\n", "\nbatch = [1, 4]\n", "\nprompt-tokens = [512]\n",
        "\nno-probes = true\n", "\nchunk = 512\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
  }
  EXPECT_EQ(text.find("config ="), std::string::npos);
}

TEST_F(ConfigFileTest, SampleFileIsReadByItsVerbs) {
  const std::string sample = COLIBRI_SOURCE_DIR "/configs/bench.toml";
  EXPECT_EQ(parse({"bench", "--config", sample}).config.bench.batches, (std::vector<int>{1, 4}));
  EXPECT_TRUE(parse({"generate", "--prompt", "x", "--config", sample}).config.generate.greedy);
}

}  // namespace
}  // namespace colibri
