// --device cuda from outside: without its library, and on simulated GPUs.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/multi/program.h"

namespace colibri {
namespace {

Words on_gpus(const Words& more) {
  return joined(generate_demo({"--prompt-ids", "1,2", "--max-tokens", "1", "--ids"}), more);
}

// Nothing on stdout, and one message, from rank 0 alone.
void expect_refused(const CommandResult& result, int exit_code, const Words& parts) {
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts) {
    const size_t at = result.err.find(part);
    EXPECT_NE(at, std::string::npos) << part << " in\n" << result.err;
    if (at == std::string::npos) continue;
    EXPECT_EQ(result.err.find(part, at + 1), std::string::npos) << "twice in\n" << result.err;
  }
}

TEST(DeviceTest, MissingLibraryEndsEveryNumberOfRanksWithThreeAndTheOptionThatBuildsIt) {
  const Words nowhere = {"COLIBRI_CUDA_LIBRARY=nowhere/libcolibri_cuda.so"};
  for (const Words& ranks : {Words{}, Words{"--ranks", "3"}}) {
    expect_refused(run_command(on_gpus(joined({"--device", "cuda"}, ranks)), 30, nowhere), 3,
                   {"nowhere/libcolibri_cuda.so is not there; configure with -DCOLIBRI_CUDA=on"});
  }
}

TEST(DeviceTest, CpuDoesNotLookForTheLibrary) {
  const CommandResult result = run_command(on_gpus({"--device", "cpu"}), 30,
                                           {"COLIBRI_CUDA_LIBRARY=nowhere/libcolibri_cuda.so"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(DeviceTest, WrongDeviceIsWrongUsage) {
  expect_refused(run_command(on_gpus({"--device", "gpu"}), 30), 2,
                 {"--device is 'gpu', want cpu, cuda or cuda:N"});
}

// As many GPUs as the test asks for.
class SimulatedGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kIsSimulated) GTEST_SKIP() << "want a build with COLIBRI_CUDA=simulated";
  }
  static constexpr bool kIsSimulated = COLIBRI_SIMULATED_GPUS;
};

TEST_F(SimulatedGpuTest, MoreRanksThanGpusNamesBoth) {
  expect_refused(
      run_command(on_gpus({"--device", "cuda", "--ranks", "3"}), 30, {"COLIBRI_SIM_DEVICES=2"}), 3,
      {"3 ranks on ", "but 2 GPUs; want a GPU for each rank"});
}

TEST_F(SimulatedGpuTest, NoGpuIsTheDriversReason) {
  expect_refused(run_command(on_gpus({"--device", "cuda"}), 30, {"COLIBRI_SIM_DEVICES=0"}), 3,
                 {"shows this process no GPU", "cudaErrorNoDevice"});
}

TEST_F(SimulatedGpuTest, NumberBeyondTheGpusIsNamed) {
  expect_refused(run_command(on_gpus({"--device", "cuda:2"}), 30, {"COLIBRI_SIM_DEVICES=2"}), 3,
                 {"--device cuda:2: rank 0 on ", "sees 2 GPUs"});
}

TEST_F(SimulatedGpuTest, OneGpuUnderTwoNumbersIsFoundByItsUuid) {
  expect_refused(run_command(on_gpus({"--device", "cuda", "--ranks", "2"}), 30,
                             {"COLIBRI_SIM_DEVICES=3", "COLIBRI_SIM_UUIDS=a,a,b"}),
                 3, {"ranks 0 and 1 are both on GPU 1"});
}

TEST_F(SimulatedGpuTest, PlanThatDoesNotFitNamesRankSizesAndWhatToDo) {
  // Rank 0's activations alone take more.
  expect_refused(run_command(on_gpus({"--device", "cuda", "--ranks", "2"}), 30,
                             {"COLIBRI_SIM_DEVICES=2", "COLIBRI_SIM_MEMORY=8000000"}),
                 3, {"not enough memory on rank", "; use more GPUs, a smaller --max-context"});
}

TEST_F(SimulatedGpuTest, DoctorShowsGpusAndTheirLinks) {
  const CommandResult result =
      run_command({kProgram, "doctor", "--transport", "local"}, 30, {"COLIBRI_SIM_DEVICES=2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part :
       {"ok   GPU part           there, for the simulated device", "ok   GPU driver         CUDA ",
        "GPU 1: Simulated GPU", "peer links: all 2 GPUs reach each other directly"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " in\n" << result.out;
  }
}

}  // namespace
}  // namespace colibri
