// `colibri convert` as a process: killed anywhere it goes on to the same bytes, and what it writes
// answers as the directory does.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "model/safetensors.h"
#include "tests/multi/program.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

Words convert(const std::string& source, const fs::path& target, const std::string& weights,
              const Words& more = {}) {
  return joined({kProgram, "convert", source, "--out", target.string(), "--weights", weights,
                 "--min-free-gb", "0"},
                more);
}

void expect_done(const Words& command) {
  const CommandResult result = run_command(command, 60);
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

void expect_refused(const Words& command, int exit_code, const Words& message) {
  const CommandResult result = run_command(command, 30);
  SCOPED_TRACE(testing::PrintToString(command));
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& word : message) {
    EXPECT_NE(result.err.find(word), std::string::npos) << word << " in\n" << result.err;
  }
}

// The demo model in four shards, so that there is something to consume on the way.
void write_sharded_demo(const fs::path& dir) {
  std::vector<TestShard> shards(4);
  const SafetensorsFile whole = SafetensorsFile::open(kDemo + "/model.safetensors");
  for (const SafetensorsEntry& entry : whole.entries()) {
    TestTensor tensor{entry.name, std::string(entry.type->name), {}, {}};
    tensor.shape.assign(entry.dims.size.begin(), entry.dims.size.begin() + entry.dims.rank);
    tensor.bytes.resize(entry.size_bytes);
    whole.read(entry.offset_bytes, entry.size_bytes, tensor.bytes.data());
    size_t shard = 3;
    for (size_t layer = 0; layer < 3; ++layer) {
      if (entry.name.find("layers." + std::to_string(layer) + ".") != std::string::npos) {
        shard = layer;
      }
    }
    shards[shard].tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = "model-" + std::to_string(i) + ".safetensors";
  }
  fs::remove_all(dir);
  fs::create_directory(dir);
  write_shards(dir, shards);
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(fs::path(kDemo) / name, dir / name);
  }
}

int count_weight_files(const fs::path& dir) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    count += entry.path().extension() == ".safetensors" ? 1 : 0;
  }
  return count;
}

// Kills the command after `delay_us`, unless it is done before.
void run_and_kill(const Words& command, int delay_us) {
  Command running(command);
  std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  running.signal(SIGKILL);
  running.wait(60);
}

class KilledConvertTest : public testing::TestWithParam<bool> {};

TEST_P(KilledConvertTest, ResumesToTheSameBytes) {
  const bool consume = GetParam();
  const int num_trials = std::getenv("FULL_TESTS") != nullptr ? 50 : 5;
  const TempDir dir;
  const fs::path model = dir / "model", target = dir / "F.colibri", whole = dir / "whole.colibri";
  write_sharded_demo(model);
  const CommandResult uninterrupted = run_command(convert(model, whole, "q4"), 60);
  ASSERT_EQ(uninterrupted.exit_code, 0) << uninterrupted.err;
  const std::string want = read_file(whole);
  const Words command = convert(model, target, "q4", consume ? Words{"--consume"} : Words{});
  std::mt19937 random(consume ? 7 : 3);
  std::uniform_int_distribution<int> delay(0, static_cast<int>(uninterrupted.seconds * 1e6));
  for (int trial = 0; trial < num_trials; ++trial) {
    const int first = delay(random), second = delay(random) / 2;
    run_and_kill(command, first);
    if (!fs::exists(target)) run_and_kill(command, second);
    if (!fs::exists(target) || fs::exists(target.string() + ".journal")) expect_done(command);
    EXPECT_EQ(read_file(target), want) << "killed after " << first << " and " << second << " us";
    EXPECT_EQ(count_weight_files(model), consume ? 0 : 4);
    for (const char* trace : {".partial", ".journal", ".source"}) {
      EXPECT_FALSE(fs::exists(target.string() + trace)) << trace;
    }
    fs::remove(target);
    if (consume) write_sharded_demo(model);
  }
}

INSTANTIATE_TEST_SUITE_P(Consume, KilledConvertTest, testing::Bool());

TEST(ConvertTest, TermEndsItCleanlyAndItGoesOn) {
  const TempDir dir;
  const fs::path target = dir / "F.colibri";
  Command running(convert(kDemo, target, "q4", {"--threads", "1"}));
  while (!fs::exists(target.string() + ".partial") && !fs::exists(target)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  running.signal(SIGTERM);
  const CommandResult result = running.wait(30);
  if (result.exit_code == 0) GTEST_SKIP() << "the conversion was faster than the signal";
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("run the same command again to go on"), std::string::npos);
  EXPECT_FALSE(fs::exists(target));
  expect_done(convert(kDemo, target, "q4"));
}

class FormsTest : public testing::TestWithParam<std::pair<const char*, const char*>> {};

// The same logits, bit for bit, from the directory and from its file.
TEST_P(FormsTest, FileAnswersAsTheDirectory) {
  const auto& [weights, dense] = GetParam();
  const TempDir dir;
  const fs::path target = dir / "demo.colibri";
  expect_done(convert(kDemo, target, weights, {"--dense-weights", dense}));
  const Words more = {"--prompt", "ROMEO:", "--greedy", "--max-tokens", "16", "--ids"};
  const fs::path from_dir = dir / "dir.npy", from_file = dir / "file.npy";
  const CommandResult want =
      run_command(generate_demo(joined(more, {"--weights", weights, "--dense-weights", dense,
                                              "--logits-out", from_dir.string()})),
                  30);
  ASSERT_EQ(want.exit_code, 0) << want.err;
  for (const char* ranks : {"1", "3"}) {
    const CommandResult got = run_command(
        joined(joined({kProgram, "generate", "--model", target.string()}, more),
               {"--ranks", ranks, "--logits-out", from_file.string(), "--page-cache", "drop"}),
        60);
    EXPECT_EQ(got.exit_code, 0) << got.err;
    EXPECT_EQ(got.out, want.out);
    EXPECT_EQ(read_file(from_file), read_file(from_dir)) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FormsTest,
                         testing::Values(std::pair("q4", "auto"), std::pair("q8", "q8"),
                                         std::pair("bf16", "auto")));

// A q4 file of the demo model, made once for the tests of what is done with it.
class ConvertedTest : public testing::Test {
 protected:
  ConvertedTest() : target_(dir_ / "demo.colibri") { expect_done(convert(kDemo, target_, "q4")); }

  Words inspect(const Words& more = {}) const {
    return joined({kProgram, "inspect", "--model", target_.string()}, more);
  }
  void change(size_t at, char value) const {
    std::string image = read_file(target_);
    image[at] = value;
    write_file(target_, image);
  }

  TempDir dir_;
  fs::path target_;
};

TEST_F(ConvertedTest, InspectTellsTheFormsAndVerifies) {
  const CommandResult result = run_command(inspect({"--verify"}), 30);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* fact : {"version 1, experts q4, projections bf16, embeddings bf16",
                           "every byte matches its checksum"}) {
    EXPECT_NE(result.out.find(fact), std::string::npos) << fact << " in\n" << result.out;
  }
}

TEST_F(ConvertedTest, FlippedBitIsNamedByItsTensor) {
  const std::string image = read_file(target_);
  change(image.size() - 100, static_cast<char>(image[image.size() - 100] ^ 4));
  expect_refused(inspect({"--verify"}), 2,
                 {"demo.colibri", "expert down of layer 3, expert 15", "copy or convert it again"});
}

TEST_F(ConvertedTest, DamagedFrontIsRefusedAtOpening) {
  change(200, '\x7f');
  expect_refused(inspect(), 2, {"the index does not match its checksum"});
  change(8, 9);
  expect_refused(inspect(), 3, {"version 9, this program reads version 1"});
  change(0, 'X');
  expect_refused(inspect(), 2, {"this is no .colibri file"});
}

TEST_F(ConvertedTest, CutFileIsRefusedAtOpening) {
  fs::resize_file(target_, fs::file_size(target_) - 1);
  expect_refused(inspect(), 2, {"the file was cut or not copied whole"});
}

TEST_F(ConvertedTest, AnotherFormThanTheStoredIsRefused) {
  expect_refused({kProgram, "generate", "--model", target_, "--prompt-ids", "1", "--weights", "q8"},
                 3, {"stored as q4", "--weights asks for q8"});
}

TEST_F(ConvertedTest, TargetInUseAndColibriSourceAreRefused) {
  const std::string before = read_file(target_);
  expect_refused(convert(kDemo, target_, "q8"), 2, {"exists already"});
  expect_refused(convert(target_, dir_ / "G.colibri", "q8"), 3, {"is a .colibri file already"});
  EXPECT_EQ(read_file(target_), before);
}

TEST(ConvertRefusalTest, DirectoryHasNoChecksums) {
  expect_refused({kProgram, "inspect", "--model", kDemo, "--verify"}, 3, {"holds no checksums"});
}

TEST(ConvertRefusalTest, DiskThatWillNotHoldItLeavesNothing) {
  const TempDir dir;
  Words command = convert(kDemo, dir / "F.colibri", "q4");
  command.back() = "1000000";
  expect_refused(command, 3, {"--min-free-gb leaves", "another disk"});
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(ConvertRefusalTest, UnsupportedSourceLeavesNothing) {
  const TempDir dir;
  write_sharded_demo(dir / "model");
  auto config = nlohmann::json::parse(read_file(kDemo + "/config.json"));
  config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  write_file(dir / "model" / "config.json", config.dump());
  expect_refused(convert(dir / "model", dir / "F.colibri", "q4"), 3, {"quantization_config"});
  EXPECT_FALSE(fs::exists(dir / "F.colibri.journal"));
}

}  // namespace
}  // namespace colibri
