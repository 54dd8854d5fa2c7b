// `colibri score`, `bench --perplexity` and route records as real processes: the same from every
// number of ranks, and what transformers' logits say.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/multi/program.h"
#include "tests/support/model_files.h"
#include "tests/support/npy_file.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

using Json = nlohmann::json;

// The lines on stdout, without "ranks", which tells how many there were.
std::vector<Json> lines_of(const Words& words, int ranks) {
  const CommandResult result = run_command(
      joined({kProgram, "score", "--model", kDemo, "--ranks", std::to_string(ranks)}, words), 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<Json> lines;
  std::istringstream text(result.out);
  for (std::string line; std::getline(text, line);) {
    lines.push_back(Json::parse(line));
    EXPECT_EQ(lines.back().at("ranks"), ranks);
    lines.back().erase("ranks");
  }
  return lines;
}

const Words kRomeo = {"--document",     "ROMEO:", "--continuation", " O, I will",
                      "--continuation", " def",   "--continuation", " Alas"};

TEST(ScoreTest, OneAndThreeRanksGiveTheSameLine) {
  const auto alone = lines_of(kRomeo, 1);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(lines_of(joined(kRomeo, {"--chunk", "2"}), 3), alone);
}

TEST(ScoreTest, LineHoldsWhatTheDocumentsSay) {
  const Json line = lines_of(kRomeo, 1).at(0);
  EXPECT_EQ(line.at("document_tokens"), 5);
  EXPECT_EQ(line.at("best"), 0);
  double sum = 0;
  for (const Json& continuation : line.at("continuations")) {
    sum += continuation.at("probability").get<double>();
    EXPECT_DOUBLE_EQ(continuation.at("logprob_per_token").get<double>() *
                         static_cast<double>(continuation.at("ids").size()),
                     continuation.at("logprob").get<double>());
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_GT(line.at("normalised_entropy"), 0);
  EXPECT_LT(line.at("normalised_entropy"), 1);
}

TEST(ScoreTest, LogProbabilityIsThatOfTransformersLogits) {
  const auto expected =
      Json::parse(read_file(test_data_dir() / "models" / "demo.expected.json")).at("prompts").at(0);
  const Json line =
      lines_of({"--document", "ROMEO:", "--continuation", expected.at("greedy_text")}, 1).at(0);
  const Json& scored = line.at("continuations").at(0);
  const auto ids = scored.at("ids").get<std::vector<size_t>>();
  ASSERT_EQ(scored.at("ids"), expected.at("greedy_ids"));
  // Row i holds the logits that predict id i + 1 of prompt and continuation.
  const NpyArray logits =
      read_npy(test_data_dir() / "models" / expected.at("logits_file").get<std::string>());
  const size_t prompt = expected.at("prompt_ids").size();
  double want = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const float* row = logits.row(prompt - 1 + i);
    double sum = 0;
    for (size_t id = 0; id < logits.cols; ++id) sum += std::exp(static_cast<double>(row[id]));
    want += static_cast<double>(row[ids[i]]) - std::log(sum);
  }
  EXPECT_NEAR(scored.at("logprob").get<double>(), want, 1e-3);
}

TEST(ScoreTest, FileOfRequestsGivesALineEach) {
  const TempDir dir;
  write_file(
      dir / "r.jsonl",
      "{\"document\": \"ROMEO:\", \"continuations\": [\" O, I will\", \" def\", \" Alas\"]}\n"
      "{\"document\": \"def main(\", \"continuations\": [\"self\"]}\n");
  const auto lines = lines_of({"--requests", (dir / "r.jsonl").string()}, 1);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines_of(kRomeo, 1).at(0));
  EXPECT_EQ(lines[1].at("normalised_entropy"), 0);
  EXPECT_EQ(lines[1].at("continuations").at(0).at("probability"), 1);
}

TEST(ScoreTest, RecordOfRoutesIsTheSameFromEveryNumberOfRanks) {
  const TempDir dir;
  const std::string alone = (dir / "1").string(), three = (dir / "3").string();
  lines_of(joined(kRomeo, {"--record-routes", alone}), 1);
  lines_of(joined(kRomeo, {"--record-routes", three}), 3);
  EXPECT_EQ(read_file(alone), read_file(three));
  const CommandResult shown =
      run_command({kProgram, "inspect", "--routes", alone, "--tokens", "1"}, 20);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("sequence 0, position 0, token 49\n  layer 0 "), std::string::npos);
  EXPECT_NE(shown.out.find("verdict: "), std::string::npos) << shown.out;
}

TEST(ScoreTest, FailedRunLeavesNoRecordOfRoutes) {
  const TempDir dir;
  const CommandResult result =
      run_command({kProgram, "score", "--model", kDemo, "--document", "ROMEO:", "--continuation",
                   "a", "--max-context", "5", "--record-routes", (dir / "r").string()},
                  20);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("want at most 5 together"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(PerplexityTest, IsTheSameWhateverRanksAndChunk) {
  const TempDir dir;
  write_file(dir / "t.txt", read_file(kDemo + "/heldout.txt").substr(0, 3000));
  const auto measure = [&](const Words& more) {
    const CommandResult result =
        run_command(joined({kProgram, "bench", "--model", kDemo, "--perplexity",
                            (dir / "t.txt").string(), "--max-context", "128", "--format", "json"},
                           more),
                    60);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json object = Json::parse(result.out);
    EXPECT_GT(object.at("perplexity"), 1);
    return object.at("perplexity").get<double>();
  };
  const double alone = measure({});
  EXPECT_EQ(measure({"--ranks", "3", "--chunk", "9"}), alone);
  EXPECT_EQ(measure({"--threads", "1"}), alone);
}

TEST(ConfigTest, FileMayAskForRanks) {
  const TempDir dir;
  write_file(dir / "c.toml",
             "model = \"" + kDemo + "\"\nranks = 3\n[score]\ndocument = \"ROMEO:\"\n");
  const CommandResult result = run_command(
      {kProgram, "score", "--config", (dir / "c.toml").string(), "--continuation", " Alas"}, 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out).at("ranks"), 3);
}

TEST(ConfigTest, PrintedConfigurationIsAllThatIsPrinted) {
  const CommandResult result =
      run_command({kProgram, "score", "--model", kDemo, "--ranks", "3", "--document", "a",
                   "--continuation", "b", "--print-config"},
                  20);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.rfind("[score]\n", 0), 0u) << result.out;
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace colibri
