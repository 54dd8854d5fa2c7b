// What attention and the operations that move rows ask of memory, as the simulated device counts
// it.
#include <gtest/gtest.h>

#include "simulated_control.h"
#include "tests/cuda/attention_rig.h"

namespace colibri {
namespace {

using colibri_sim::KernelCounters;

double share_used(const KernelCounters& c) {
  return static_cast<double>(c.loaded_bytes + c.stored_bytes) /
         static_cast<double>(c.loaded_sector_bytes + c.stored_sector_bytes);
}

struct CountedAttention {
  KernelCounters attention, merge;
  double cache_bytes_a_position = 0;
};

CountedAttention count_attention(const AttentionCase& c) {
  colibri_sim::reset_counters();
  EXPECT_EQ(compare_attention(c,
                              [](const void* pool, size_t bytes) {
                                colibri_sim::name_allocation(pool, "cache", bytes);
                              }),
            "");
  CountedAttention counted;
  counted.attention = colibri_sim::counters_of(c.knows_contexts ? "attention_parts_kernel"
                                                                : "attention_in_order_kernel");
  counted.merge = colibri_sim::counters_of("merge_attention_kernel");
  counted.cache_bytes_a_position = static_cast<double>(c.layout.page_bytes()) / kTile;
  return counted;
}

// One token after 199 others, eight query heads a kv head.
AttentionCase decode(DType dtype, bool knows_contexts) {
  return {.layout = {.dtype = dtype, .num_kv_heads = 2, .key_dim = 128, .value_dim = 128},
          .num_heads = 16,
          .runs = {{199, 1}},
          .knows_contexts = knows_contexts};
}

class AttentionCounters : public testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  AttentionCase decode_case() const {
    return decode(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, AttentionCounters,
                         testing::Combine(testing::Values(DType::kF32, DType::kBF16),
                                          testing::Bool()),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) ? "_parts" : "_in_order");
                         });

// A kv head's eight query heads share one reading of the keys. With bf16 both halves of a warp ask
// for the same values, for four rows each: one access, counted twice.
TEST_P(AttentionCounters, DecodeReadsTheCacheOnce) {
  const CountedAttention counted = count_attention(decode_case());
  const double asked = static_cast<double>(counted.attention.loaded_bytes_of.at("cache"));
  const double once = 200 * counted.cache_bytes_a_position;
  EXPECT_EQ(asked, decode_case().layout.dtype == DType::kF32 ? once : 1.5 * once);
}

// Beside the cache there are the queries (in parts: for each of the four tiles), and in order the
// result so far, whose bf16 form takes each of its sectors in two accesses.
TEST_P(AttentionCounters, UsesNearlyAllOfTheSectorsOfTheCacheThatItReads) {
  const AttentionCase c = decode_case();
  const CountedAttention counted = count_attention(c);
  const double rows = 16 * 128 * 4, accesses = c.layout.dtype == DType::kF32 ? 1 : 2;
  const double beside = c.knows_contexts ? 4 * rows : rows + 3 * accesses * rows;
  EXPECT_GE(200 * counted.cache_bytes_a_position,
            0.95 * (static_cast<double>(counted.attention.loaded_sector_bytes) - beside));
  if (c.knows_contexts) {
    EXPECT_GE(share_used(counted.merge), 0.95);
  }
}

TEST_P(AttentionCounters, HasAtMostTwoWayBankConflicts) {
  EXPECT_LE(count_attention(decode_case()).attention.worst_bank_ways, 2);
}

TEST(RowCounters, GatherReadsAndWritesWholeSectors) {
  CudaRig rig;
  DeviceArray<float> x(rig, random_floats(5 * 1024, 1)), out(rig, 3 * 1024);
  DeviceArray<int32_t> row(rig, std::vector<int32_t>{4, 0, 2});
  colibri_sim::reset_counters();
  rig.cuda->gather_rows(
      {.x = x.data(), .row = row.data(), .out = out.data(), .num_rows = 3, .width = 1024},
      *rig.stream);
  rig.stream->synchronize();
  const KernelCounters counted = colibri_sim::counters_of("gather_rows_kernel");
  EXPECT_GE(share_used(counted), 0.95);
  EXPECT_EQ(counted.stored_bytes, 3u * 1024 * 4);
}

// Counts what combine asks for with results in either form.
template <class T>
KernelCounters count_combine(const std::vector<T>& host_results, const T* Combine::*member) {
  CudaRig rig;
  DeviceArray<float> residual(rig, random_floats(2 * 1024, 1)), weights(rig, random_floats(6, 3));
  DeviceArray<T> results(rig, host_results);
  DeviceArray<int64_t> offset(rig, std::vector<int64_t>{0, 2048, 1024, 5120, 3072, 4096});
  colibri_sim::reset_counters();
  colibri_sim::name_allocation(results.data(), "results");
  Combine op{.residual = residual.data(),
             .result_offset = offset.data(),
             .weights = weights.data(),
             .out = residual.data(),
             .num_tokens = 2,
             .top_k = 3,
             .hidden_size = 1024};
  op.*member = results.data();
  rig.cuda->combine(op, *rig.stream);
  rig.stream->synchronize();
  return colibri_sim::counters_of("combine_kernel");
}

TEST(RowCounters, CombineReadsEachResultOnceInWholeSectors) {
  const auto results = random_floats(6 * 1024, 2);
  const KernelCounters f32 = count_combine(results, &Combine::results);
  EXPECT_GE(share_used(f32), 0.95);
  EXPECT_EQ(f32.loaded_bytes_of.at("results"), 6u * 1024 * 4);
  const KernelCounters bf16 = count_combine(to_bf16(results), &Combine::results_bf16);
  EXPECT_GE(share_used(bf16), 0.95);
  EXPECT_EQ(bf16.loaded_bytes_of.at("results"), 6u * 1024 * 2);
}

TEST(RowCounters, RouterHasAtMostTwoWayBankConflicts) {
  CudaRig rig;
  DeviceArray<float> logits(rig, random_floats(2 * 256, 1)), weights(rig, 16);
  DeviceArray<int32_t> ids(rig, 16);
  colibri_sim::reset_counters();
  rig.cuda->route({.knobs = {.num_experts = 256, .top_k = 8, .num_groups = 8, .top_groups = 4},
                   .logits = logits.data(),
                   .expert_ids = ids.data(),
                   .weights = weights.data(),
                   .num_tokens = 2},
                  *rig.stream);
  rig.stream->synchronize();
  EXPECT_LE(colibri_sim::counters_of("route_kernel").worst_bank_ways, 2);
}

}  // namespace
}  // namespace colibri
