// What a session takes of a GPU, held against its plan: exactly that for weights, no more for the
// rest. That every run's plan holds is what all tests with --device cuda show; here plans are
// wrong.
#include <gtest/gtest.h>

#include <functional>

#include "launch/cuda_backend.h"
#include "launch/local_ranks.h"
#include "launch/model_session.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_device_link.h"

namespace colibri {
namespace {

const std::string kModels = COLIBRI_SOURCE_DIR "/tests/data/models/";

ChosenDevice first_gpu(int num_ranks) {
  ChosenDevice chosen;
  chosen.backend = &open_cuda_backend();
  const GpuProbe probe = chosen.backend->probe_gpus();
  require_gpu(probe);
  chosen.gpu = probe.gpus.front();
  chosen.gpu_of_rank.assign(static_cast<size_t>(num_ranks), chosen.gpu);
  return chosen;
}

struct Session {
  std::string model = "qwen2_moe_shared";
  std::string weights = "f32", activations = "f32";
  int ranks = 1;
  bool device_rows = false;
  std::function<void(int rank, GpuNeed&)> change_plan = [](int, GpuNeed&) {};
  std::function<void(ModelSession&)> look = [](ModelSession&) {};
};

// Loads the model and does nothing with it.
void open(const Session& what) {
  CommonOptions options;
  options.model = kModels + what.model;
  options.weights = what.weights;
  options.activations = what.activations;
  options.transport = "local";
  options.threads = 1;
  options.chunk = 16;
  LocalDeviceFabric fabric(what.ranks);
  run_local_ranks(options, what.ranks, [&](RankContext& context) {
    context.device = first_gpu(what.ranks);
    SessionHooks hooks;
    hooks.change_gpu_plan = [&, rank = context.rank](GpuNeed& n) { what.change_plan(rank, n); };
    if (what.device_rows) {
      hooks.make_link = [&](RankContext& of, Device& device) {
        return fabric.link(of.rank, device);
      };
      hooks.fixed_capacity = {.max_tokens = 8};
    }
    ModelSession session(
        options, context,
        [](const Checkpoint&) { return SessionNeeds{.max_context = 100, .num_sequences = 2}; },
        hooks);
    return session.run([&](Serving&) {
      what.look(session);
      return 0;
    });
  });
}

TEST(GpuPlanTest, IsWhatASessionTakesToTheByte) {
  for (const char* model : {"qwen2_moe_shared", "deepseek_v3_groups"}) {
    GpuNeed planned;
    int64_t taken = 0, staging = 0;
    open({.model = model,
          .change_plan = [&](int, GpuNeed& need) { planned = need; },
          .look =
              [&](ModelSession& session) {
                taken = session.device().allocated_bytes();
                staging = session.device().staging_bytes();
              }});
    EXPECT_EQ(taken, planned.allocated_bytes()) << model;
    EXPECT_GT(planned.weight_bytes, 0) << model;
    EXPECT_GT(planned.expert_bytes, 0) << model;
    EXPECT_GT(staging, 0) << model;
  }
}

TEST(GpuPlanTest, ProductsOfTheLibraryAreInIt) {
  GpuNeed planned;
  int64_t taken = 0;
  open({.weights = "bf16",
        .activations = "bf16",
        .change_plan = [&](int, GpuNeed& need) { planned = need; },
        .look = [&](ModelSession& session) { taken = session.device().allocated_bytes(); }});
  EXPECT_GT(planned.library_bytes, 1 << 20) << "cuBLASLt's workspace on the simulated device";
  EXPECT_LE(taken, planned.allocated_bytes());
  EXPECT_GT(taken, planned.allocated_bytes() - planned.library_bytes);
}

TEST(GpuPlanTest, WrongWeightsAreABugThatIsNamed) {
  EXPECT_ERROR(open({.change_plan = [](int, GpuNeed& need) { need.weight_bytes += 4; }}), kInternal,
               "memory of rank 0's GPU: weights took ");
  EXPECT_ERROR(open({.change_plan = [](int, GpuNeed& need) { need.expert_bytes -= 64; }}),
               kInternal, "memory of rank 0's GPU: experts took ");
}

TEST(GpuPlanTest, OneByteMoreThanPlannedIsABugThatIsNamed) {
  EXPECT_ERROR(open({.change_plan = [](int, GpuNeed& need) { need.workspace_bytes -= 1; }}),
               kInternal, "memory of rank 0's GPU: all together took ");
}

TEST(GpuPlanTest, AWorkersPlanIsHeldToo) {
  const Session session{.ranks = 2, .device_rows = true};
  EXPECT_NO_THROW(open(session));
  Session wrong = session;
  wrong.change_plan = [](int rank, GpuNeed& need) { need.expert_bytes += rank == 1 ? 64 : 0; };
  EXPECT_ERROR(open(wrong), kInternal, "memory of rank 1's GPU: experts took ");
}

}  // namespace
}  // namespace colibri
