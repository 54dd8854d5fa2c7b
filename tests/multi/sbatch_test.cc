// launch/colibri.sbatch with a stub in the place of srun: how it calls the program, and that two
// ranks started that way answer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/multi/program.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const std::string kScript = COLIBRI_SOURCE_DIR "/launch/colibri.sbatch";

// Writes its arguments to $STUB_ARGUMENTS, then starts the program as srun would: two tasks.
constexpr char kStub[] = R"(#!/usr/bin/env bash
printf '%s\n' "$@" > "$STUB_ARGUMENTS"
env | grep '^COLIBRI_' > "$STUB_ARGUMENTS.env" || true
[ -n "${STUB_RUNS:-}" ] || exit "${STUB_CODE:-0}"
while [[ $1 == --* ]]; do shift; done
exec mpirun -n 2 --oversubscribe --bind-to none "$@"
)";

class SbatchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_ / "bin");
    std::ofstream(dir_ / "bin/srun") << kStub;
    std::filesystem::permissions(dir_ / "bin/srun", std::filesystem::perms::owner_all);
  }

  CommandResult run(const Words& words, const Words& more_environment = {}) {
    const std::string path = (dir_ / "bin").string() + ":" + std::getenv("PATH");
    return run_command(
        joined({kScript}, words), 60,
        joined(joined({"PATH=" + path, "SLURM_SUBMIT_DIR=" COLIBRI_SOURCE_DIR,
                       "STUB_ARGUMENTS=" + arguments_path(), "COLIBRI_PROGRAM=" + kProgram},
                      kMpiAsRoot),
               more_environment));
  }

  Words lines_of_file(const std::string& path) const {
    std::ifstream file(path);
    Words lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string arguments_path() const { return (dir_ / "arguments").string(); }
  Words arguments() const { return lines_of_file(arguments_path()); }
  Words colibri_variables() const { return lines_of_file(arguments_path() + ".env"); }

  TempDir dir_;
};

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST_F(SbatchTest, CallsSrunSoThatColibriBindsAndSurvivorsSpeak) {
  const CommandResult result = run({"generate", "--prompt", "two words"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(arguments(),
            (Words{"--mpi=pmix", "--cpu-bind=none", "--gpu-bind=none", "--mem-bind=none",
                   "--kill-on-bad-exit=0", "--wait=60", kProgram, "generate", "--config",
                   COLIBRI_SOURCE_DIR "/configs/node-8gpu.toml", "--prompt", "two words"}));
}

TEST_F(SbatchTest, ItsOwnVariablesDoNotReachColibri) {
  run({"doctor"}, {"COLIBRI_MPI_TYPE=pmi2", "COLIBRI_CHUNK=7"});
  EXPECT_EQ(arguments().front(), "--mpi=pmi2");
  EXPECT_EQ(colibri_variables(), (Words{"COLIBRI_CHUNK=7"}));
}

TEST_F(SbatchTest, ConfigurationThatIsGivenReplacesTheNodes) {
  run({"bench", "--config", "mine.toml"});
  EXPECT_TRUE(has(arguments(), "mine.toml"));
  EXPECT_FALSE(has(arguments(), COLIBRI_SOURCE_DIR "/configs/node-8gpu.toml"));
}

TEST_F(SbatchTest, ExitCodeIsSruns) { EXPECT_EQ(run({"generate"}, {"STUB_CODE=4"}).exit_code, 4); }

TEST_F(SbatchTest, MissingProgramNamesTheBuildCommand) {
  const CommandResult result = run({"generate"}, {"COLIBRI_PROGRAM=nowhere/colibri"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("nowhere/colibri is not there; build it with: cmake --preset cuda"),
            std::string::npos)
      << result.err;
}

TEST_F(SbatchTest, NoArgumentsAreWrongUsage) { EXPECT_EQ(run({}).exit_code, 2); }

TEST_F(SbatchTest, AsksForOneTaskAGpu) {
  std::ifstream file(kScript);
  std::ostringstream text;
  text << file.rdbuf();
  for (const char* line : {"#SBATCH --ntasks-per-node=8\n", "#SBATCH --gpus-per-node=8\n"}) {
    EXPECT_NE(text.str().find(line), std::string::npos) << line;
  }
}

TEST_F(SbatchTest, TwoRanksAnswer) {
  const CommandResult result =
      run({"generate", "--model", kDemo, "--prompt", "ROMEO:", "--greedy", "--max-tokens", "64",
           "--ids", "--device", "cpu", "--kv-dtype", "f32", "--max-context", "0"},
          {"STUB_RUNS=1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, romeo_line());
}

TEST_F(SbatchTest, TwoSimulatedGpusAnswer) {
  if (!COLIBRI_SIMULATED_GPUS) GTEST_SKIP() << "want a build with COLIBRI_CUDA=simulated";
  const CommandResult result = run({"generate", "--model", kDemo, "--prompt", "ROMEO:", "--greedy",
                                    "--max-tokens", "3", "--ids", "--max-context", "0"},
                                   {"STUB_RUNS=1", "COLIBRI_SIM_DEVICES=2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(romeo_line().find(result.out.substr(0, result.out.find('\n')) + ","), 0u) << result.out;
  EXPECT_NE(result.err.find("(cuda"), std::string::npos) << result.err;
}

TEST(NodeConfigTest, LoadsAndSaysCuda) {
  const CommandResult result =
      run_command({kProgram, "generate", "--config", COLIBRI_SOURCE_DIR "/configs/node-8gpu.toml",
                   "--model", kDemo, "--prompt", "x", "--print-config"},
                  10);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* line : {"device = \"cuda\"\n", "kv-dtype = \"bf16\"\n", "chunk = 2048\n",
                           "bind = \"own\"\n", "max-batch = 64\n"}) {
    EXPECT_NE(result.out.find(line), std::string::npos) << line << " in\n" << result.out;
  }
}

TEST(NodeConfigTest, DeviceIsAFlagAVariableAndAKey) {
  const Words words = {
      kProgram,        "generate", "--config", COLIBRI_SOURCE_DIR "/configs/node-8gpu.toml",
      "--model",       kDemo,      "--prompt", "x",
      "--print-config"};
  const auto device = [](const CommandResult& result) {
    const size_t at = result.out.find("device = ");
    return at == std::string::npos ? result.err
                                   : result.out.substr(at, result.out.find('\n', at) - at);
  };
  EXPECT_EQ(device(run_command(words, 10)), "device = \"cuda\"");
  EXPECT_EQ(device(run_command(words, 10, {"COLIBRI_DEVICE=cuda:1"})), "device = \"cuda:1\"");
  EXPECT_EQ(device(run_command(joined(words, {"--device", "cpu"}), 10, {"COLIBRI_DEVICE=cuda:1"})),
            "device = \"cpu\"");
}

}  // namespace
}  // namespace colibri
