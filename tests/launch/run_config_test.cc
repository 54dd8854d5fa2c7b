#include "launch/run_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

ParsedCommandLine parse(std::vector<const char*> words) {
  words.insert(words.begin(), "colibri");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

RunConfig generate(std::vector<const char*> more) {
  std::vector<const char*> words = {"generate", "--model", "m"};
  words.insert(words.end(), more.begin(), more.end());
  return parse(words).config;
}

TEST(RunConfigTest, UnderscoresInNamesAreHyphensAndValuesStayAsTheyAre) {
  const RunConfig config = generate({"--prompt", "a_b", "--max_tokens=7"});
  EXPECT_EQ(config.generate.max_tokens, 7);
  EXPECT_EQ(config.generate.prompt, "a_b");
}

TEST(RunConfigTest, FlagWinsOverVariableAndVariableOverDefault) {
  ::setenv("COLIBRI_CHUNK", "9", 1);
  EXPECT_EQ(generate({"--prompt", "x"}).common.chunk, 9);
  EXPECT_EQ(generate({"--prompt", "x", "--chunk", "3"}).common.chunk, 3);
  ::unsetenv("COLIBRI_CHUNK");
  EXPECT_EQ(generate({"--prompt", "x"}).common.chunk, 512);
}

TEST(RunConfigTest, InspectShowsOneThing) {
  EXPECT_EQ(parse({"inspect", "--loads", "l"}).config.inspect.loads, "l");
  EXPECT_ERROR(parse({"inspect", "--loads", "l", "--routes", "r"}), kInput,
               "--routes and --loads are given, want one of them");
}

TEST(RunConfigTest, MisspeltVariableIsNamed) {
  ::setenv("COLIBRI_THREAD", "2", 1);
  const auto unknown = parse({"generate", "--model", "m", "--prompt", "x"}).unknown_variables;
  ::unsetenv("COLIBRI_THREAD");
  EXPECT_EQ(std::count(unknown.begin(), unknown.end(), "COLIBRI_THREAD"), 1);
}

TEST(RunConfigTest, StopMayBeGivenAgainAndTakesOneWordEach) {
  const RunConfig config = generate({"--stop", "a", "--stop", "b", "--prompt", "x"});
  EXPECT_EQ(config.generate.stop, (std::vector<std::string>{"a", "b"}));
}

TEST(RunConfigTest, PromptThatLooksLikeAnOptionIsTakenBehindAnEqualsSign) {
  EXPECT_EQ(generate({"--prompt=--x"}).generate.prompt, "--x");
}

TEST(RunConfigTest, HelpAndVersionAreTextToPrint) {
  EXPECT_NE(parse({"generate", "--help"}).text.find("--max-tokens"), std::string::npos);
  EXPECT_EQ(parse({"--version"}).text, "colibri 0.1.0\n");
}

TEST(RunConfigTest, NumbersOutOfRangeAreNamedWithTheirRange) {
  EXPECT_ERROR(generate({"--prompt", "x", "--threads", "-1"}), kInput,
               "--threads is -1, want 0 to");
  EXPECT_ERROR(generate({"--prompt", "x", "--step-timeout", "0"}), kInput, "--step-timeout is 0");
  EXPECT_ERROR(generate({"--prompt", "x", "--fixed-share", "33"}), kInput, "want 1 to 32");
  EXPECT_ERROR(generate({"--prompt", "x", "--chunk", "ten"}), kInput, "ten");
}

TEST(RunConfigTest, WordsOutsideTheListAreNamedWithTheList) {
  EXPECT_ERROR(generate({"--prompt", "x", "--bind", "left"}), kInput, "want one of own, inherit");
}

TEST(RunConfigTest, ValidElsewhereButNotHereIsUnsupported) {
  EXPECT_ERROR(generate({"--prompt", "x", "--combine", "reduced"}), kUnsupported, "reduced");
  EXPECT_ERROR(parse({"bench", "--calibrate", "m.toml", "--device", "cuda"}), kUnsupported,
               "--device is 'cuda'");
}

TEST(RunConfigTest, ScoringWantsAFileForTheLogits) {
  EXPECT_ERROR(generate({"--prompt", "x", "--score-prompt"}), kInput, "--logits-out");
}

}  // namespace
}  // namespace colibri
