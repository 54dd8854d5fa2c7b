// `bench --serve` and `chat` as processes.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/multi/served.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

using nlohmann::json;

TEST(ServingBenchRunTest, TokensAreThoseAskedFor) {
  Served served({"--max-context", "128", "--ranks", "2"});
  const TempDir dir;
  const CommandResult result = run_command({kProgram,
                                            "bench",
                                            "--serve",
                                            served.url(),
                                            "--num-prompts",
                                            "6",
                                            "--random-input-len",
                                            "20",
                                            "--random-output-len",
                                            "5",
                                            "--ignore-eos",
                                            "--max-concurrency",
                                            "1,3",
                                            "--format",
                                            "json",
                                            "--out",
                                            dir / "o.json",
                                            "--svg",
                                            dir / "o.svg",
                                            "--api-key",
                                            "sesame"},
                                           60);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  ASSERT_EQ(document["runs"].size(), 2u);
  for (const json& run : document["runs"]) {
    EXPECT_EQ(run["completed"], 6);
    EXPECT_EQ(run["total_input_tokens"], 6 * 20);
    EXPECT_EQ(run["total_output_tokens"], 6 * 5);
    EXPECT_EQ(run["without_usage"], 0);
  }
  EXPECT_EQ(document["prompts"], "random token ids");
  EXPECT_EQ(document["command"].get<std::string>().find("sesame"), std::string::npos);
  EXPECT_EQ(json::parse(std::ifstream(dir / "o.json")), document);
  EXPECT_TRUE(std::filesystem::exists(dir / "o.svg"));
}

TEST(ServingBenchRunTest, DatasetOverChatAndRefusalsByTheirReason) {
  Served served({"--max-context", "128"});
  const TempDir dir;
  const std::string dataset = dir / "d.jsonl";
  std::ofstream(dataset) << "{\"prompt\":\"ROMEO:\",\"max_tokens\":3}\n{\"prompt\":\""
                         << std::string(2000, 'x') << "\"}\n";
  const Words bench = {kProgram,    "bench", "--serve",    served.url(), "--num-prompts", "4",
                       "--dataset", dataset, "--endpoint", "chat",       "--ignore-eos"};
  const CommandResult result = run_command(joined(bench, {"--request-rate", "200"}), 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("Successful requests:                     2"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("Total generated tokens:                  6"), std::string::npos);
  EXPECT_NE(result.out.find("failed 2: HTTP 400: 'messages' is "), std::string::npos) << result.out;
}

TEST(ServingBenchRunTest, NobodyThereIsSaid) {
  const CommandResult result =
      run_command({kProgram, "bench", "--serve", "http://127.0.0.1:1"}, 60);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("does not answer: Connection refused"), std::string::npos)
      << result.err;
}

// The conversation as its template writes it.
std::string answer_after(const std::string& text) {
  return run_command(generate_demo({"--greedy", "--max-tokens", "8", "--prompt",
                                    text + "<|im_start|>assistant\n"}),
                     60)
      .out;
}

CommandResult chat(const std::string& input, const Words& more) {
  std::string command = "printf '" + input + "' | " + kProgram + " chat --model " + kDemo +
                        " --greedy --max-tokens 8";
  for (const std::string& word : more) command += " " + word;
  return run_command({"sh", "-c", command}, 60);
}

TEST(ChatRunTest, EachLineIsATurnOfOneConversation) {
  const std::string first = "<|im_start|>user\nGo.<|im_end|>\n";
  const std::string one = answer_after(first);
  std::string said = one;
  if (!said.starts_with("\n") || said.size() > 1) said.pop_back();
  const std::string two = answer_after(first + "<|im_start|>assistant\n" + said +
                                       "<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n");
  const std::string input = "Go.\\n\\nWho?\\n/reset\\nGo.\\n/exit\\nno\\n";
  for (const Words& more : {Words{}, Words{"--ranks", "2"}}) {
    const CommandResult result = chat(input, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, one + two + one);
  }
}

TEST(ChatRunTest, SystemMessageComesFirst) {
  const std::string text =
      "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n";
  EXPECT_EQ(chat("Go.", {"--system", "'Be brief'"}).out, answer_after(text));
}

TEST(ChatRunTest, ConversationTooLongForTheContextIsAnError) {
  const CommandResult result =
      chat("Go.\\n" + std::string(200, 'z') + "\\n", {"--max-context", "64"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("want at most 63; /reset"), std::string::npos) << result.err;
}

// One that reads from a pipe held open, as from somebody who types.
class TypedChatTest : public testing::TestWithParam<Words> {};

TEST_P(TypedChatTest, InterruptEndsTheAnswerAndTwoLeave) {
  const TempDir dir;
  const std::string pipe = dir / "in";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string command =
      "exec " + kProgram + " chat --model " + kDemo + " --temperature 5 < " + pipe;
  for (const std::string& word : GetParam()) command += " " + word;
  Command run({"sh", "-c", command});
  std::ofstream typed(pipe);
  const auto type_and_wait_for_text = [&](const std::string& line) {
    const size_t before = run.out_so_far().size();
    typed << line << std::flush;
    return wait_until([&] { return run.out_so_far().size() > before + 20; }, 60);
  };
  const auto is_quiet = [&] {
    const size_t before = run.out_so_far().size();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return run.out_so_far().size() == before;
  };
  ASSERT_TRUE(type_and_wait_for_text("Go.\n"));
  run.signal(SIGINT);
  EXPECT_TRUE(wait_until(is_quiet, 30));
  EXPECT_TRUE(run.out_so_far().ends_with("\n"));
  EXPECT_TRUE(type_and_wait_for_text("Go on.\n")) << "it does not go on";
  run.signal(SIGINT);
  EXPECT_TRUE(wait_until(is_quiet, 30));
  run.signal(SIGINT);
  const CommandResult result = run.wait(60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(ChatRunTest, WorkerThatDiesBetweenTurnsEndsTheNextOneByName) {
  const TempDir dir;
  const std::string pipe = dir / "in", model = dir / "model";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_directory_symlink(kDemo, model);
  Command run(
      {"sh", "-c",
       "exec " + kProgram + " chat --ranks 3 --max-tokens 8 --model " + model + " < " + pipe});
  std::ofstream typed(pipe);
  typed << "Go.\n" << std::flush;
  ASSERT_TRUE(wait_until([&] { return run.out_so_far().ends_with("\n"); }, 60));
  ::kill(process_of_rank(model, 2), SIGKILL);
  typed << "Go on.\n" << std::flush;
  const CommandResult result = run.wait(60);
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.err.find("rank 2 is lost"), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(AloneAndOnRanks, TypedChatTest,
                         testing::Values(Words{}, Words{"--ranks", "2"}));

}  // namespace
}  // namespace colibri
