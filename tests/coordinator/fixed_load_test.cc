// How often steps of fixed size run again: fewer than one in two hundred (one in a hundred is
// promised) under skewed load and under what the demo model's router chose for real text.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "coordinator/dispatch_plan.h"
#include "coordinator/return_capacity.h"
#include "coordinator/route_override.h"
#include "model/shapes.h"
#include "model/tokenizer.h"
#include "tests/support/model_files.h"
#include "tests/support/run_model.h"
#include "tests/support/temp_dir.h"
#include "topology/placement_file.h"

namespace colibri {
namespace {

const std::string kDemo = COLIBRI_SOURCE_DIR "/configs/models/demo";

// Rank 0 holds no expert.
Placement placed_on(int num_ranks, const ModelConfig& config) {
  const ModelShape shape = model_shape(config, {}, DType::kBF16);
  return make_placement(parse_placement_option("contiguous"), shape, {.num_ranks = num_ranks});
}

// Sequences in decode, each at its own position.
Batch decode_batch(int num_sequences, int step) {
  Batch batch;
  for (int s = 0; s < num_sequences; ++s) {
    batch.ids.push_back(0);
    batch.positions.push_back(step + 11 * s);
    batch.sequences.push_back(s);
  }
  return batch;
}

// The most results that one rank returns in `layer`.
int64_t most_results(int layer, const Batch& batch, const Placement& placement,
                     std::span<const int32_t> ids) {
  DispatchPlan plan;
  const int64_t tokens = batch.num_tokens(), top_k = std::ssize(ids) / tokens;
  plan_dispatch({layer, tokens, top_k, ids}, placement, plan);
  int64_t most = 0;
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    const auto pairs_before = [&](size_t i) {
      return plan.pair_begin[static_cast<size_t>(plan.row_begin[i])];
    };
    most = std::max<int64_t>(most, pairs_before(r + 1) - pairs_before(r));
  }
  return most;
}

// What a step is held against beside: as much of all results as some step of the last 256 had, and
// no more. It shows that a load is one on which capacities can be too small.
class NoMoreThanSeen {
 public:
  explicit NoMoreThanSeen(size_t num_layers) : seen_(num_layers) {}
  bool fits(size_t layer, int64_t all, int64_t results) const {
    const std::deque<double>& seen = seen_[layer];
    if (seen.size() < ReturnCapacity::kPatience) return true;
    return static_cast<double>(results) <=
           *std::max_element(seen.begin(), seen.end()) * static_cast<double>(all);
  }
  void observe(size_t layer, int64_t all, int64_t results) {
    seen_[layer].push_back(static_cast<double>(results) / static_cast<double>(all));
    if (seen_[layer].size() > ReturnCapacity::kPatience) seen_[layer].pop_front();
  }

 private:
  std::vector<std::deque<double>> seen_;
};

struct Load {
  int num_steps = 0, num_reruns = 0;
  int num_without_room = 0;  // reruns if capacities were no more than was seen
  double room = 0;           // for results, of all that could come; the mean
};

// Batches of 5 to 64 sequences, each size for a while. One layer whose results do not fit makes the
// step run again, as a whole.
Load run_steps(RouteOverride& routing, const ModelConfig& config, const Placement& placement) {
  constexpr int kSizes[] = {64, 5, 32, 8};
  constexpr int kStepsOfASize = 300, kSteps = 2 * kStepsOfASize * std::ssize(kSizes);
  const auto layers = static_cast<size_t>(config.num_layers);
  ReturnCapacity capacity(config.num_layers, config.top_k);
  NoMoreThanSeen no_more(layers);
  Load load;
  for (; load.num_steps < kSteps; ++load.num_steps) {
    const auto size = static_cast<size_t>(load.num_steps / kStepsOfASize) % std::size(kSizes);
    const Batch batch = decode_batch(kSizes[size], load.num_steps);
    const int64_t tokens = batch.num_tokens(), all = tokens * config.top_k;
    std::vector<int32_t> ids(static_cast<size_t>(all));
    std::vector<float> weights(ids.size());
    bool fits = true, fits_what_was_seen = true;
    for (int layer = 0; layer < config.num_layers; ++layer) {
      routing.choose(layer, batch, ids, weights);
      const int64_t results = most_results(layer, batch, placement, ids);
      const auto l = static_cast<size_t>(layer);
      fits = fits && results <= capacity.of(layer, tokens);
      fits_what_was_seen = fits_what_was_seen && no_more.fits(l, all, results);
      load.room += static_cast<double>(capacity.of(layer, tokens)) /
                   static_cast<double>(all * config.num_layers * kSteps);
      capacity.observe(layer, tokens, results);
      no_more.observe(l, all, results);
    }
    if (!fits) ++load.num_reruns;
    if (!fits_what_was_seen) ++load.num_without_room;
  }
  return load;
}

void expect_few_reruns_and_less_than_all_sent(const Load& load) {
  EXPECT_LT(load.num_reruns, load.num_steps / 200);
  EXPECT_GT(load.num_without_room, load.num_steps / 100);
  EXPECT_LT(load.room, 0.9);
}

// Records what the router chooses for held-out text.
void record_demo(const std::filesystem::path& file) {
  constexpr size_t kPrompts = 8, kLength = 600;
  const std::vector<int32_t> text =
      Tokenizer::load(kDemo).encode(read_file(kDemo + "/heldout.txt"), false);
  ASSERT_GT(text.size(), kPrompts * kLength);
  ModelRun run;
  run.options.model = kDemo;
  run.options.record_routes = file;
  for (size_t i = 0; i < kPrompts; ++i) {
    const auto* begin = text.data() + i * kLength;
    run.prompts.emplace_back(begin, begin + kLength);
  }
  run.max_tokens = 1;
  run_model(run);
}

TEST(FixedLoadTest, FewerThanOneStepInTwoHundredRunsAgainUnderZipfLoad) {
  ModelConfig config = *named_shape("qwen3-30b-a3b");
  config.num_layers = 8;
  config.layer_is_moe.resize(8);
  const auto routing = make_random_routing(config, 0.9, 1);
  expect_few_reruns_and_less_than_all_sent(run_steps(*routing, config, placed_on(8, config)));
}

TEST(FixedLoadTest, FewerThanOneStepInTwoHundredRunsAgainUnderTheDemosLoad) {
  const TempDir dir;
  record_demo(dir / "demo.routes");
  const ModelConfig config = *named_shape("demo");
  const auto routing = make_recorded_routing(config, dir / "demo.routes");
  for (const int ranks : {5, 8}) {
    SCOPED_TRACE(ranks);
    expect_few_reruns_and_less_than_all_sent(run_steps(*routing, config, placed_on(ranks, config)));
  }
}

}  // namespace
}  // namespace colibri
