// What the products' kernels ask of memory, as the simulated device counts it.
#include <gtest/gtest.h>

#include "simulated_control.h"
#include "tests/cuda/products_rig.h"

namespace colibri {
namespace {

struct Form {
  DType dtype;
  Rows rows;
  bool bf16_results;
  const char* hidden_kernel;
  const char* down_kernel;
};

// As a GPU runs them with activations in f32 and in bf16.
constexpr const char* kQuantisedHidden = "ffn_quantised_hidden_kernel";
constexpr const char* kQuantisedDown = "ffn_quantised_down_kernel";
const Form kForms[] = {
    {DType::kQ8, Rows::kQuantised, false, kQuantisedHidden, kQuantisedDown},
    {DType::kQ8, Rows::kQuantised, true, kQuantisedHidden, kQuantisedDown},
    {DType::kQ4, Rows::kQuantised, true, kQuantisedHidden, kQuantisedDown},
    {DType::kBF16, Rows::kBf16, true, "ffn_bf16_hidden_kernel", "ffn_bf16_down_kernel"}};

class CudaCounters : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Weights, CudaCounters, testing::ValuesIn(kForms), [](const auto& test) {
  return std::string(to_string(test.param.dtype)) +
         (test.param.bf16_results ? "_bf16_results" : "_f32_results");
});

struct Counted {
  colibri_sim::KernelCounters hidden, down;
  double weight_bytes = 0, weight_bytes_loaded = 0;
};

// Three experts, one of which has no rows, of a width at which every loop has several stages.
Counted count_ffn(const Form& form, int32_t rows) {
  const FfnCase c{.dtype = form.dtype,
                  .hidden_size = 512,
                  .width = 256,
                  .group_rows = {rows, 0, 1},
                  .bf16_results = form.bf16_results};
  Counted counted;
  int matrix = 0;
  colibri_sim::reset_counters();
  cuda_ffn(c, form.rows, [&](const void* memory, size_t bytes) {
    const bool is_idle = matrix++ / 3 == 1;
    colibri_sim::name_allocation(memory, is_idle ? "idle" : "weights", bytes);
    if (!is_idle) counted.weight_bytes += static_cast<double>(bytes);
  });
  counted.hidden = colibri_sim::counters_of(form.hidden_kernel);
  counted.down = colibri_sim::counters_of(form.down_kernel);
  for (const auto* kernel : {&counted.hidden, &counted.down}) {
    for (const auto& [name, bytes] : kernel->loaded_bytes_of) {
      EXPECT_NE(name, "idle");
      if (name == "weights") counted.weight_bytes_loaded += static_cast<double>(bytes);
    }
  }
  return counted;
}

TEST_P(CudaCounters, ExpertsWeightsAreReadOnce) {
  for (const int32_t rows : {1, 64}) {
    const Counted counted = count_ffn(GetParam(), rows);
    EXPECT_LE(counted.weight_bytes_loaded, 1.02 * counted.weight_bytes) << rows << " rows";
    EXPECT_GE(counted.weight_bytes_loaded, counted.weight_bytes) << rows << " rows";
  }
}

TEST_P(CudaCounters, ExpertsUseWhatTheyReadOfASector) {
  for (const int32_t rows : {1, 9}) {
    const Counted counted = count_ffn(GetParam(), rows);
    for (const auto* kernel : {&counted.hidden, &counted.down}) {
      EXPECT_GE(static_cast<double>(kernel->loaded_bytes),
                0.95 * static_cast<double>(kernel->loaded_sector_bytes))
          << rows << " rows";
    }
  }
}

TEST_P(CudaCounters, ResultsAreWrittenInWholeSectors) {
  for (const int32_t rows : {1, 9, 65}) {
    const Counted counted = count_ffn(GetParam(), rows);
    const int each = GetParam().bf16_results ? 2 : 4;
    EXPECT_EQ(counted.down.stored_bytes, static_cast<uint64_t>((rows + 1) * 512 * each));
    EXPECT_EQ(counted.down.stored_sector_bytes, counted.down.stored_bytes) << rows << " rows";
  }
}

// The row itself is three hundredths of q4's weights in every block, and tables count at this size.
TEST_P(CudaCounters, WithOneRowNearlyAllSectorsAreOfWeights) {
  const Counted counted = count_ffn(GetParam(), 1);
  const auto sector_bytes =
      static_cast<double>(counted.hidden.loaded_sector_bytes + counted.down.loaded_sector_bytes);
  EXPECT_GE(counted.weight_bytes, 0.94 * sector_bytes);
}

TEST_P(CudaCounters, ExpertsHaveAtMostTwoWayBankConflicts) {
  for (const int32_t rows : {5, 65}) {
    const Counted counted = count_ffn(GetParam(), rows);
    EXPECT_LE(counted.hidden.worst_bank_ways, 2) << rows << " rows";
    EXPECT_LE(counted.down.worst_bank_ways, 2) << rows << " rows";
  }
}

}  // namespace
}  // namespace colibri
