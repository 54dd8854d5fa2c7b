#include "launch/prompts.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const Checkpoint& demo() {
  static const Checkpoint checkpoint = Checkpoint::open(COLIBRI_SOURCE_DIR "/configs/models/demo");
  return checkpoint;
}

GenerateOptions with_prompt(const std::string& text) {
  GenerateOptions options;
  options.prompt = text;
  options.has_prompt = true;
  return options;
}

// The prompts of a --prompts file with these lines.
PromptSet from_file(const std::string& lines) {
  const TempDir dir;
  write_file(dir / "p.jsonl", lines);
  GenerateOptions options;
  options.prompts_file = (dir / "p.jsonl").string();
  return read_prompts(options, demo());
}

using Ids = std::vector<int32_t>;

TEST(PromptsTest, TextIsEncodedAndIdsAreTakenAsTheyAre) {
  EXPECT_EQ(read_prompts(with_prompt("ROMEO:"), demo()).ids,
            (std::vector<Ids>{{49, 1038, 36, 46, 25}}));
  GenerateOptions options;
  options.prompt_ids = "7,0,1535";
  EXPECT_EQ(read_prompts(options, demo()).ids, (std::vector<Ids>{{7, 0, 1535}}));
}

TEST(PromptsTest, LinesAreStringsOrObjectsAndBlankLinesAreNothing) {
  const PromptSet set =
      from_file("\"ROMEO:\"\n\n{\"prompt\": \"ROMEO:\"}\n{\"prompt_ids\": [1, 2]}\n");
  ASSERT_EQ(set.ids.size(), 3u);
  EXPECT_EQ(set.ids[0], set.ids[1]);
  EXPECT_EQ(set.ids[2], (Ids{1, 2}));
}

TEST(PromptsTest, WrongLineIsNamedByItsNumber) {
  EXPECT_ERROR(from_file("\"a\"\nnot json\n"), kInput, "line 2");
  EXPECT_ERROR(from_file("{\"text\": \"a\"}\n"), kInput, "line 1");
  EXPECT_ERROR(from_file("{\"prompt_ids\": [1, -2]}\n"), kInput, "-2");
  EXPECT_ERROR(from_file("\n\n"), kInput, "holds no prompt");
}

TEST(PromptsTest, EmptyPromptAndIdsOutsideTheVocabularyAreRefused) {
  EXPECT_ERROR(read_prompts(with_prompt(""), demo()), kInput, "prompt is empty");
  EXPECT_ERROR(from_file("{\"prompt_ids\": [1536]}\n"), kInput, "1536 is outside");
}

TEST(PromptsTest, SamplingComesFromTheModelUnlessAsked) {
  const SamplingParams by_model = read_prompts(with_prompt("x"), demo()).sampling;
  EXPECT_FALSE(by_model.greedy);
  EXPECT_EQ(by_model.temperature, 0.8f);
  EXPECT_EQ(by_model.top_p, 0.95f);
  GenerateOptions options = with_prompt("x");
  options.temperature = 2.0;
  const SamplingParams asked = read_prompts(options, demo()).sampling;
  EXPECT_EQ(asked.temperature, 2);
  EXPECT_EQ(asked.top_p, 0.95f);
  options.greedy = true;
  EXPECT_TRUE(read_prompts(options, demo()).sampling.greedy);
}

TEST(PromptsTest, EndOfTextIdsAreTheGenerationConfigsUnlessIgnored) {
  EXPECT_EQ(read_prompts(with_prompt("x"), demo()).eos_ids, (Ids{1533, 1535}));
  GenerateOptions options = with_prompt("x");
  options.ignore_eos = true;
  EXPECT_TRUE(read_prompts(options, demo()).eos_ids.empty());
}

}  // namespace
}  // namespace colibri
