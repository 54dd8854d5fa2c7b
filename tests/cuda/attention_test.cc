#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "base/dtype.h"
#include "tests/cuda/cuda_rig.h"

namespace colibri {
namespace {

// Some consecutive tokens of one sequence.
struct Run {
  int32_t first_position;
  int32_t num_tokens;
};

struct AttentionCase {
  KvLayout layout;
  int64_t num_heads;
  std::vector<Run> runs;  // each of another sequence
  bool knows_contexts = false;
  int64_t pad = 0;  // floats between rows of q and out
};

int64_t count_tokens(const AttentionCase& c) {
  int64_t tokens = 0;
  for (const Run& run : c.runs) tokens += run.num_tokens;
  return tokens;
}

int32_t last_position(const AttentionCase& c) {
  int32_t last = 0;
  for (const Run& run : c.runs) last = std::max(last, run.first_position + run.num_tokens - 1);
  return last;
}

// Every sequence has the pages of the longest one, strewn over the pool.
struct Pages {
  explicit Pages(const AttentionCase& c) : a_sequence(last_position(c) / kTile + 1) {
    count = a_sequence * static_cast<int64_t>(c.runs.size());
    for (int64_t i = 0; i < count; ++i) {
      table.push_back(static_cast<int32_t>((i * 7 + 2) % count));
    }
    if (count % 7 == 0) std::reverse(table.begin(), table.end());
  }
  int64_t a_sequence;
  int64_t count = 0;
  std::vector<int32_t> table;
};

// Random keys and values; what lies after each sequence's last position is NaN.
std::vector<float> make_pool(const AttentionCase& c, const Pages& pages) {
  const KvLayout& layout = c.layout;
  std::vector<float> pool = random_floats(pages.count * layout.page_elements(), 7);
  for (size_t s = 0; s < c.runs.size(); ++s) {
    const int64_t end = c.runs[s].first_position + c.runs[s].num_tokens;
    for (int64_t position = end; position < pages.a_sequence * kTile; ++position) {
      const int64_t page = pages.table[static_cast<size_t>(
          static_cast<int64_t>(s) * pages.a_sequence + position / kTile)];
      for (int64_t h = 0; h < layout.num_kv_heads; ++h) {
        const auto spoil = [&](int64_t first, int64_t dim) {
          float* at = pool.data() + page * layout.page_elements() + first +
                      (h * kTile + position % kTile) * dim;
          std::fill(at, at + dim, std::numeric_limits<float>::quiet_NaN());
        };
        spoil(0, layout.key_dim);
        if (!layout.shared_value) {
          spoil(layout.num_kv_heads * kTile * layout.key_dim, layout.value_dim);
        }
      }
    }
  }
  return pool;
}

std::vector<KvRow> make_rows(const AttentionCase& c, const Pages& pages, const int32_t* table) {
  std::vector<KvRow> rows;
  for (size_t s = 0; s < c.runs.size(); ++s) {
    for (int32_t i = 0; i < c.runs[s].num_tokens; ++i) {
      rows.push_back(
          {table + static_cast<int64_t>(s) * pages.a_sequence, c.runs[s].first_position + i});
    }
  }
  return rows;
}

template <class E>
std::string compare_as(const AttentionCase& c, const std::vector<E>& pool, const Pages& pages) {
  CudaRig rig;
  const int64_t tokens = count_tokens(c);
  Attention op{.layout = c.layout,
               .num_tokens = tokens,
               .num_heads = c.num_heads,
               .q_stride = c.num_heads * c.layout.key_dim + c.pad,
               .out_stride = c.num_heads * c.layout.value_dim + c.pad,
               .softmax_scale = 0.37f,
               .max_position = c.knows_contexts ? last_position(c) : 0};
  const auto q = random_floats(tokens * op.q_stride, 3);
  std::vector<float> want(static_cast<size_t>(tokens * op.out_stride), 5.0f);
  const std::vector<float> before = want;
  const auto rows = make_rows(c, pages, pages.table.data());
  std::vector<unsigned char> scratch(
      static_cast<size_t>(rig.cpu->attention_scratch_bytes(op, *rig.cpu_stream)));
  op.pool = pool.data();
  op.rows = rows.data();
  op.q = q.data();
  op.out = want.data();
  op.scratch = scratch.data();
  rig.cpu->attention(op, *rig.cpu_stream);

  DeviceArray<E> device_pool(rig, pool);
  DeviceArray<int32_t> device_table(rig, pages.table);
  DeviceArray<KvRow> device_rows(rig, make_rows(c, pages, device_table.data()));
  DeviceArray<float> device_q(rig, q), out(rig, before);
  DeviceArray<unsigned char> device_scratch(
      rig, static_cast<size_t>(rig.cuda->attention_scratch_bytes(op, *rig.stream)));
  op.pool = device_pool.data();
  op.rows = device_rows.data();
  op.q = device_q.data();
  op.out = out.data();
  op.scratch = device_scratch.data();
  rig.cuda->attention(op, *rig.stream);
  return difference(out.host(), want);
}

std::string compare(const AttentionCase& c) {
  const Pages pages(c);
  const std::vector<float> pool = make_pool(c, pages);
  if (c.layout.dtype == DType::kF32) return compare_as(c, pool, pages);
  return compare_as(c, to_bf16(pool), pages);
}

// The case with f32 and bf16 caches, in order and cut over the context.
void expect_the_cpus_bits(AttentionCase c) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool knows_contexts : {false, true}) {
      c.layout.dtype = dtype;
      c.knows_contexts = knows_contexts;
      EXPECT_EQ(compare(c), "") << to_string(dtype) << (knows_contexts ? " in parts" : " in order")
                                << ", " << c.num_heads << " heads, key width " << c.layout.key_dim;
    }
  }
}

KvLayout grouped(int64_t kv_heads, int64_t key_dim, int64_t value_dim) {
  return {.num_kv_heads = kv_heads, .key_dim = key_dim, .value_dim = value_dim};
}

TEST(CudaAttention, HasTheCpusBitsForOneTokenAtEveryPlaceOfATile) {
  for (const int32_t position : {0, 1, 15, 16, 62, 63, 64, 127, 128, 200}) {
    expect_the_cpus_bits({grouped(1, 16, 16), 2, {{position, 1}}});
  }
}

TEST(CudaAttention, HasTheCpusBitsForEveryGroupOfHeads) {
  for (const int64_t group : {1, 3, 8, 17}) {
    expect_the_cpus_bits({grouped(2, 32, 32), 2 * group, {{70, 3}, {0, 1}, {130, 2}}});
  }
}

TEST(CudaAttention, HasTheCpusBitsForEveryWidth) {
  for (const int64_t key_dim : {1, 8, 24, 40, 100, 192}) {
    expect_the_cpus_bits({grouped(2, key_dim, key_dim), 4, {{66, 2}}});
  }
  expect_the_cpus_bits({grouped(1, 48, 136), 3, {{66, 2}}});
  expect_the_cpus_bits({grouped(1, 20, 7), 3, {{66, 2}}});
}

TEST(CudaAttention, HasTheCpusBitsForAPrefillOfThreeTilesAndAPart) {
  expect_the_cpus_bits({grouped(1, 32, 16), 3, {{0, 201}}});
}

TEST(CudaAttention, HasTheCpusBitsForManySequences) {
  expect_the_cpus_bits(
      {grouped(1, 16, 16), 1, {{5, 1}, {300, 1}, {64, 1}, {0, 1}, {63, 9}, {1, 2}}});
}

TEST(CudaAttention, HasTheCpusBitsForLatentAttention) {
  const KvLayout latent{.key_dim = 72, .value_dim = 64, .shared_value = true};
  expect_the_cpus_bits({latent, 16, {{129, 2}, {10, 1}}});
  const KvLayout wide{.key_dim = 320, .value_dim = 256, .shared_value = true};
  expect_the_cpus_bits({wide, 9, {{70, 1}}});
}

TEST(CudaAttention, TakesRowsThatAreNotAligned) {
  expect_the_cpus_bits(
      {.layout = grouped(1, 32, 32), .num_heads = 2, .runs = {{100, 3}}, .pad = 3});
}

TEST(CudaAttention, HasTheCpusBitsOverMoreTilesThanAWaveHolds) {
  AttentionCase c{grouped(1, 8, 4), 1, {{520 * kTile + 3, 1}, {3, 1}, {511 * kTile + 63, 1}}};
  c.knows_contexts = true;
  EXPECT_EQ(compare(c), "");
}

// A key that gives an infinite score makes the row NaN, and no other row.
TEST(CudaAttention, NotFiniteScoresStayInTheirRows) {
  AttentionCase c{grouped(2, 16, 16), 4, {{70, 2}}};
  const Pages pages(c);
  std::vector<float> pool = make_pool(c, pages);
  pool[static_cast<size_t>(pages.table[0] * c.layout.page_elements())] =
      std::numeric_limits<float>::infinity();
  for (const bool knows_contexts : {false, true}) {
    c.knows_contexts = knows_contexts;
    EXPECT_EQ(compare_as(c, pool, pages), "");
  }
}

TEST(CudaAttention, WithoutTokensDoesNothing) {
  EXPECT_EQ(compare({grouped(1, 8, 8), 1, {{0, 0}}}), "");
}

}  // namespace
}  // namespace colibri
