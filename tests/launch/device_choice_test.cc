#include "launch/device_choice.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/expect_error.h"
#include "transport/local_transport.h"

namespace colibri {
namespace {

GpuProbe probe_of(int num_gpus, int last_minor = 0) {
  GpuProbe probe{.driver_version = 13000, .runtime_version = 13000};
  for (int i = 0; i < num_gpus; ++i) {
    GpuInfo gpu;
    gpu.ordinal = i;
    gpu.name = "NVIDIA \"H100\"";
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.major = 9;
    gpu.minor = i + 1 == num_gpus ? last_minor : 0;
    gpu.memory_bytes = 80'000'000'000 + i;
    gpu.pci_bus_id = "ffff:0" + std::to_string(i) + ":00.0";  // nowhere on this machine
    probe.gpus.push_back(gpu);
  }
  return probe;
}

CudaBackend backend_of(GpuProbe (*probe)()) {
  return {.kind = "made up", .probe_gpus = probe, .has_nccl = [] { return true; }};
}

const CudaBackend& four_gpus() {
  static const CudaBackend backend = backend_of([] { return probe_of(4); });
  return backend;
}
const CudaBackend& four_gpus_without_nccl() {
  static const CudaBackend backend = [] {
    CudaBackend made = four_gpus();
    made.has_nccl = [] { return false; };
    return made;
  }();
  return backend;
}
const CudaBackend& two_unequal_gpus() {
  static const CudaBackend backend = backend_of([] { return probe_of(2, 1); });
  return backend;
}
const CudaBackend& no_driver() {
  static const CudaBackend backend =
      backend_of([] { return GpuProbe{.problem = "no driver is loaded here"}; });
  return backend;
}

struct Outcome {
  ChosenDevice chosen;
  std::string error;  // empty: none
  ErrorKind kind = ErrorKind::kInternal;
};

using Backends = std::vector<const CudaBackend& (*)()>;

// A thread for each rank, rank r given devices[r] and backends[r] (or the last).
std::vector<Outcome> choose(const std::vector<std::string>& devices, const Backends& backends,
                            const CommonOptions& more = {}) {
  const size_t size = devices.size();
  LocalFabric fabric(static_cast<int>(size));
  std::vector<Outcome> outcomes(size);
  const auto run_one = [&](size_t rank) {
    const auto transport = fabric.endpoint(static_cast<int>(rank));
    RankContext context{.rank = static_cast<int>(rank),
                        .size = static_cast<int>(size),
                        .local_rank = static_cast<int>(rank),
                        .num_local_ranks = static_cast<int>(size),
                        .transport = size == 1 ? nullptr : transport.get(),
                        .log = {}};
    CommonOptions options = more;
    options.device = devices[rank];
    options.start_timeout_s = 5;
    try {
      outcomes[rank].chosen = choose_device(
          options, context, {backends[std::min(rank, backends.size() - 1)], "node-1"});
    } catch (const AgreedError& error) {
      outcomes[rank].error = error.what();
      outcomes[rank].kind = error.kind();
    }
  };
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < size; ++rank) ranks.emplace_back(run_one, rank);
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

void expect_refused(const std::vector<Outcome>& outcomes, ErrorKind kind, const char* part) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, kind);
    EXPECT_NE(outcome.error.find(part), std::string::npos) << outcome.error;
    EXPECT_EQ(outcome.error, outcomes[0].error);
  }
}

TEST(DeviceChoiceTest, DeviceIsCpuOrCudaOrOneGpu) {
  EXPECT_FALSE(parse_device("cpu").is_cuda);
  EXPECT_EQ(parse_device("cuda").ordinal, -1);
  EXPECT_EQ(parse_device("cuda:7").ordinal, 7);
  for (const char* wrong :
       {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "", "cuda:99999999999"}) {
    EXPECT_ERROR(parse_device(wrong), kInput, "want cpu, cuda or cuda:N");
  }
}

TEST(DeviceChoiceTest, CpuOpensNothing) {
  const auto never = []() -> const CudaBackend& { fail(ErrorKind::kInternal, "opened"); };
  const auto outcomes = choose({"cpu", "cpu"}, {never});
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_FALSE(outcomes[1].chosen.is_cuda());
}

TEST(DeviceChoiceTest, RankAloneTakesTheFirstGpu) {
  const auto outcomes = choose({"cuda"}, {four_gpus});
  EXPECT_EQ(outcomes[0].error, "");
  EXPECT_EQ(outcomes[0].chosen.gpu.ordinal, 0);
}

TEST(DeviceChoiceTest, EachRankKnowsItsGpuAndThoseOfTheOthers) {
  const auto outcomes = choose({"cuda", "cuda", "cuda"}, {four_gpus});
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(outcomes[rank].error, "");
    const ChosenDevice& chosen = outcomes[rank].chosen;
    EXPECT_EQ(chosen.backend, &four_gpus());
    EXPECT_EQ(chosen.gpu, probe_of(4).gpus[rank]);
    ASSERT_EQ(chosen.gpu_of_rank.size(), 3u);
    EXPECT_EQ(chosen.gpu_of_rank[2].uuid, "GPU-2");
  }
}

TEST(DeviceChoiceTest, GpuOfAnUnknownPlaceBindsToNothing) {
  const auto outcomes = choose({"cuda"}, {four_gpus});
  EXPECT_TRUE(outcomes[0].chosen.near_cpus.empty());
  EXPECT_EQ(outcomes[0].chosen.numa_node, -1);
}

TEST(DeviceChoiceTest, RanksOnOneGpuAreRefusedByAll) {
  expect_refused(choose({"cuda:1", "cuda:0", "cuda:1"}, {four_gpus}), ErrorKind::kEnvironment,
                 "ranks 0 and 2 are both on GPU 1");
}

TEST(DeviceChoiceTest, MoreRanksThanGpusAreRefusedByAll) {
  expect_refused(choose({"cuda", "cuda", "cuda"}, {two_unequal_gpus}), ErrorKind::kEnvironment,
                 "3 ranks on node-1, but 2 GPUs");
}

TEST(DeviceChoiceTest, UnequalGpusWantAFlag) {
  CommonOptions mixed;
  mixed.allow_mixed_gpus = true;
  expect_refused(choose({"cuda", "cuda"}, {two_unequal_gpus}), ErrorKind::kEnvironment,
                 "--allow-mixed-gpus");
  EXPECT_EQ(choose({"cuda", "cuda"}, {two_unequal_gpus}, mixed)[1].error, "");
}

TEST(DeviceChoiceTest, OneRankWithoutADriverIsToldByAll) {
  expect_refused(choose({"cuda", "cuda"}, {four_gpus, no_driver}), ErrorKind::kEnvironment,
                 "no driver is loaded here");
}

TEST(DeviceChoiceTest, RankOnAnotherBackendIsNamedByAll) {
  expect_refused(choose({"cuda", "cpu"}, {four_gpus}), ErrorKind::kInput,
                 "rank 0 computes on 'made up', rank 1 on 'cpu'");
}

CommonOptions over(const std::string& transport, bool self_exchange = false) {
  CommonOptions options;
  options.transport = transport;
  options.self_exchange = self_exchange;
  return options;
}

TEST(DeviceChoiceTest, RowsTravelOverNcclWhereEveryRankHasIt) {
  for (const char* transport : {"auto", "nccl"}) {
    for (const Outcome& outcome : choose({"cuda", "cuda"}, {four_gpus}, over(transport))) {
      EXPECT_EQ(outcome.error, "");
      EXPECT_TRUE(outcome.chosen.over_nccl) << transport;
      EXPECT_TRUE(outcome.chosen.ranks_without_nccl.empty());
    }
  }
}

TEST(DeviceChoiceTest, OneRankWithoutNcclSendsAllRowsThroughTheHost) {
  const auto outcomes = choose({"cuda", "cuda", "cuda"},
                               {four_gpus, four_gpus_without_nccl, four_gpus}, over("auto"));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_FALSE(outcome.chosen.over_nccl);
    EXPECT_EQ(outcome.chosen.ranks_without_nccl, std::vector<int>{1});
  }
}

TEST(DeviceChoiceTest, RanksWithoutTheNcclThatIsAskedForAreNamedByAll) {
  expect_refused(
      choose({"cuda", "cuda", "cuda"}, {four_gpus, four_gpus_without_nccl}, over("nccl")),
      ErrorKind::kUnsupported, "ranks 1 and 2 have no NCCL");
  expect_refused(choose({"cuda"}, {four_gpus_without_nccl}, over("nccl")), ErrorKind::kUnsupported,
                 "rank 0 has no NCCL");
}

TEST(DeviceChoiceTest, NcclIsNotLookedForWhereNoRowsTravelOverIt) {
  static CudaBackend asking = four_gpus();
  asking.has_nccl = []() -> bool { fail(ErrorKind::kInternal, "looked for"); };
  const auto backend = []() -> const CudaBackend& { return asking; };
  for (const char* transport : {"mpi", "local"}) {
    EXPECT_EQ(choose({"cuda", "cuda"}, {backend}, over(transport))[0].error, "") << transport;
  }
  EXPECT_EQ(choose({"cuda"}, {backend}, over("auto"))[0].error, "");
}

TEST(DeviceChoiceTest, RankAloneUsesNcclToReachItself) {
  EXPECT_FALSE(choose({"cuda"}, {four_gpus}, over("nccl"))[0].chosen.over_nccl);
  EXPECT_TRUE(choose({"cuda"}, {four_gpus}, over("nccl", true))[0].chosen.over_nccl);
}

TEST(DeviceChoiceTest, OneGpuForSeveralRanksIsWrongUsage) {
  const char* words[] = {"colibri", "generate", "--model", "m",       "--prompt",
                         "x",       "--device", "cuda:1",  "--ranks", "2"};
  EXPECT_ERROR(parse_command_line(std::size(words), words), kInput, "want --device cuda");
}

}  // namespace
}  // namespace colibri
