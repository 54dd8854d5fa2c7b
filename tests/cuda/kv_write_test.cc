#include <gtest/gtest.h>

#include "base/dtype.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

struct KvCase {
  KvLayout layout;
  std::vector<int32_t> positions;
};

constexpr int32_t kPages = 4;

// What the pool's bytes are after writing to a pool of zeros; every token is another sequence whose
// pages lie in another order.
std::vector<unsigned char> written(CudaRig& rig, bool on_cuda, const KvCase& c) {
  const KvLayout& layout = c.layout;
  const auto tokens = static_cast<int64_t>(c.positions.size());
  const int64_t key_stride = layout.num_kv_heads * layout.key_dim + 3;
  const int64_t value_stride = layout.num_kv_heads * layout.value_dim;
  const auto keys = random_floats(tokens * key_stride, 1);
  const auto values = random_floats(tokens * value_stride, 2);
  const std::vector<int32_t> pages = {2, 0, 3, 1};
  std::vector<unsigned char> pool(static_cast<size_t>(kPages * layout.page_bytes()), 0);
  DeviceArray<float> device_keys(rig, keys), device_values(rig, values);
  DeviceArray<int32_t> device_pages(rig, pages);
  DeviceArray<unsigned char> device_pool(rig, pool);
  std::vector<KvRow> rows;
  for (const int32_t position : c.positions) {
    rows.push_back({on_cuda ? device_pages.data() : pages.data(), position});
  }
  DeviceArray<KvRow> device_rows(rig, rows);
  const KvWrite op{.layout = layout,
                   .pool = on_cuda ? device_pool.data() : pool.data(),
                   .rows = on_cuda ? device_rows.data() : rows.data(),
                   .keys = on_cuda ? device_keys.data() : keys.data(),
                   .values = layout.shared_value ? nullptr
                             : on_cuda           ? device_values.data()
                                                 : values.data(),
                   .num_tokens = tokens,
                   .key_stride = key_stride,
                   .value_stride = value_stride};
  (on_cuda ? rig.cuda : rig.cpu)->kv_write(op, on_cuda ? *rig.stream : *rig.cpu_stream);
  return on_cuda ? device_pool.host() : pool;
}

void expect_same_bytes(const KvCase& c) {
  CudaRig rig;
  EXPECT_EQ(written(rig, true, c), written(rig, false, c));
}

TEST(CudaKvWrite, HasTheCpusBytesForGroupedQueries) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t dim : {16, 128, 9}) {
      const KvLayout layout{
          .dtype = dtype, .num_kv_heads = 2, .key_dim = dim, .value_dim = dim + 4};
      expect_same_bytes({layout, {0, 63, 64, 255, 130}});
    }
  }
}

TEST(CudaKvWrite, HasTheCpusBytesForLatentAttention) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const KvLayout layout{.dtype = dtype, .key_dim = 320, .value_dim = 256, .shared_value = true};
    expect_same_bytes({layout, {1, 64, 191}});
  }
}

TEST(CudaKvWrite, WithoutTokensDoesNothing) {
  expect_same_bytes({{.key_dim = 8, .value_dim = 8}, {}});
}

}  // namespace
}  // namespace colibri
