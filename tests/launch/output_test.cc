// What a run leaves behind: NumPy files, answers, the summary.

#include <gtest/gtest.h>

#include "coordinator/answer.h"
#include "launch/npy_writer.h"
#include "launch/session_setup.h"
#include "launch/summary.h"
#include "tests/support/expect_error.h"
#include "tests/support/npy_file.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

TEST(NpyWriterTest, RowsComeBackWithTheirShape) {
  const TempDir dir;
  NpyWriter writer(dir / "a.npy", 2);
  writer.add_row(std::vector<float>{1, 2});
  writer.add_row(std::vector<float>{3, 4.5f});
  writer.commit();
  const NpyArray array = read_npy(dir / "a.npy");
  EXPECT_EQ(array.rows, 2u);
  EXPECT_EQ(array.cols, 2u);
  EXPECT_EQ(array.values, (std::vector<float>{1, 2, 3, 4.5f}));
}

TEST(NpyWriterTest, WithoutCommitNothingIsLeft) {
  const TempDir dir;
  {
    NpyWriter writer(dir / "a.npy", 1);
    writer.add_row(std::vector<float>{1});
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(NpyWriterTest, PathThatCannotBeWrittenIsNamed) {
  EXPECT_ERROR(NpyWriter("/nowhere/a.npy", 1), kInput, "/nowhere/a.npy");
}

TEST(AnswerTest, StopStringEndsItAndTextBeforeItComesAsItIsCertain) {
  const Tokenizer tokenizer = Tokenizer::load(COLIBRI_SOURCE_DIR "/configs/models/demo");
  const std::vector<int32_t> ids = tokenizer.encode("one two three");
  std::vector<std::string> parts;
  Answer answer(&tokenizer, {"two"}, [&](const std::string& text) { parts.push_back(text); });
  bool goes_on = true;
  for (size_t i = 0; goes_on && i < ids.size(); ++i) goes_on = answer.push(ids[i]);
  answer.finish();
  EXPECT_FALSE(goes_on);
  EXPECT_EQ(answer.text(), "one ");
  std::string joined;
  for (const std::string& part : parts) joined += part;
  EXPECT_EQ(joined, answer.text());
}

TEST(AnswerTest, WithoutATokenizerThereAreIdsAndNoText) {
  Answer answer(nullptr, {}, [](const std::string&) { FAIL(); });
  EXPECT_TRUE(answer.push(5));
  answer.finish();
  EXPECT_EQ(answer.ids(), (std::vector<int32_t>{5}));
}

TEST(SummaryTest, NamesSpeedExpertsAndWaits) {
  ModelShape shape;
  shape.num_layers = 1;
  shape.num_experts = 2;
  shape.layer_is_moe = {true};
  shape.expert_bytes = 1500000;
  const Placement placement(shape, 2, {{{}, {0, 1}}});
  EngineTotals engine;
  engine.num_prompt_tokens = 10;
  engine.prefill_s = 0.1;
  engine.num_new_tokens = 30;
  ExchangeTotals exchange;
  exchange.wait_us = {0, 2500};
  exchange.compute_us = {0, 1500};
  exchange.num_messages = 4;
  exchange.dispatch_bytes = 2000000;
  const std::string text = summary_text({.engine = &engine,
                                         .exchange = &exchange,
                                         .fixed = {.num_steps = 50, .num_reruns = 1},
                                         .placement = &placement,
                                         .shape = &shape,
                                         .first_token_s = 0.05,
                                         .elapsed_s = 2,
                                         .load_s = 0.5,
                                         .backend = "cpu/avx2"});
  for (const char* fact :
       {"10 prompt tokens at 100 tokens/s", "30 new tokens at 15.0 tokens/s",
        "ready after 500 ms, first token 50 ms later",
        "rank 1: 2 experts in 1 layers, 3.0 MB, computed 1.5 ms, waited for 2.5 ms",
        "dispatch 2.00 MB in 4 messages",
        "50 steps with messages of fixed size, 1 (2.00 %) run again"}) {
    EXPECT_NE(text.find(fact), std::string::npos) << fact << " in\n" << text;
  }
}

TEST(SessionSetupTest, WordsOfFlagsBecomeTheirValues) {
  EXPECT_EQ(parse_kv_dtype("auto"), DType::kF32);
  EXPECT_EQ(parse_kv_dtype("bf16"), DType::kBF16);
  EXPECT_EQ(parse_isa("portable"), Isa::kPortable);
  EXPECT_EQ(parse_isa("auto"), best_isa());
}

}  // namespace
}  // namespace colibri
