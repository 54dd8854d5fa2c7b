// Requests that share pages, wait for pages and are preempted, on a GPU: the CPU's bits of each
// alone.
#include <gtest/gtest.h>

#include <map>

#include "base/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "launch/local_ranks.h"
#include "tests/support/local_device_link.h"
#include "tests/support/run_model.h"

namespace colibri {
namespace {

constexpr int64_t kContext = 192;  // three pages

CommonOptions options_of(const std::string& model) {
  CommonOptions options;
  options.model = COLIBRI_SOURCE_DIR "/tests/data/models/" + model;
  options.threads = 1;
  options.chunk = 64;
  return options;
}

// Begins with the same 70 tokens for each `own`.
std::vector<int32_t> prompt_of(int own) {
  std::vector<int32_t> ids;
  const int length = own == 0 ? 122 : 72;
  for (int i = 0; i < length; ++i) ids.push_back((i * i * 7 + (i < 70 ? 0 : own)) % 96);
  return ids;
}

using Logits = std::map<int, std::vector<float>>;  // of a request's picked rows

Request request_of(int own, Logits& logits) {
  Request request;
  request.prompt_ids = prompt_of(own);
  request.max_tokens = own == 0 ? 10 : 12;
  request.on_logits = [&row_of = logits[own]](std::span<const float> row) {
    row_of.insert(row_of.end(), row.begin(), row.end());
  };
  return request;
}

// One rank, with a cache of six pages.
void serve(const CommonOptions& options, const SessionHooks& hooks,
           const std::function<void(Serving&)>& use) {
  run_local_ranks(options, 1, [&](RankContext& context) {
    const auto needs = [](const Checkpoint&) {
      return SessionNeeds{.max_context = kContext, .num_sequences = 2};
    };
    ModelSession session(options, context, needs, hooks);
    return session.run([&](Serving& serving) {
      use(serving);
      return 0;
    });
  });
}

Logits alone_on_the_cpu(const CommonOptions& options, int count) {
  Logits logits;
  serve(options, {}, [&](Serving& serving) {
    for (int own = 0; own < count; ++own) {
      serving.engine.add(request_of(own, logits));
      while (serving.engine.step()) {
      }
    }
  });
  return logits;
}

TEST(SharedPagesTest, RequestsThatShareAndLosePagesHaveTheCpusBits) {
  const CommonOptions options = options_of("qwen2_moe_shared");
  const Logits want = alone_on_the_cpu(options, 4);
  LocalDeviceFabric fabric(1);
  SessionHooks hooks;
  hooks.make_device = [](ThreadPool&) { return make_cuda_device(0); };
  hooks.make_ops = [](Isa) { return make_cuda_ops(); };
  hooks.make_link = [&](RankContext&, Device& device) { return fabric.link(0, device); };
  hooks.fixed_capacity = {.max_tokens = 16};
  Logits got;
  serve(options, hooks, [&](Serving& serving) {
    std::vector<int32_t> taken;  // three are left: request 0 alone needs them in the end
    for (int i = 0; i < 3; ++i) taken.push_back(serving.cache.take_page());
    Engine engine(serving.forward, serving.cache, 96,
                  {.limits = {.max_tokens = 64, .chunk = 40},
                   .max_context = kContext,
                   .max_batch = 2,
                   .prefix_salt = 1});
    for (int own = 0; own < 4; ++own) engine.add(request_of(own, got));
    while (engine.step()) {
    }
    EXPECT_GT(engine.state().num_preemptions, 0);
    EXPECT_GT(engine.state().prefixes.num_hit_tokens, 0);
    serving.cache.give_back(taken);
  });
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace colibri
