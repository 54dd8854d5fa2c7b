#include "tests/cuda/attention_rig.h"

#include <algorithm>
#include <limits>

#include "base/dtype.h"

namespace colibri {
namespace {

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
std::string compare_as(const AttentionCase& c, const std::vector<E>& pool, const Pages& pages,
                       const OnPool& on_pool) {
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
  if (on_pool) on_pool(device_pool.data(), pool.size() * sizeof(E));
  rig.cuda->attention(op, *rig.stream);
  return difference(out.host(), want);
}

}  // namespace

std::string compare_attention(const AttentionCase& c, const OnPool& on_pool) {
  const Pages pages(c);
  const std::vector<float> pool = make_pool(c, pages);
  if (c.layout.dtype == DType::kF32) return compare_as(c, pool, pages, on_pool);
  return compare_as(c, to_bf16(pool), pages, on_pool);
}

std::string compare_spoilt_attention(const AttentionCase& c, int32_t position, float number) {
  const Pages pages(c);
  std::vector<float> pool = make_pool(c, pages);
  const KvLayout& layout = c.layout;
  const int64_t page = pages.table[static_cast<size_t>(position / kTile)];
  float* at = pool.data() + page * layout.page_elements();
  at[position % kTile * layout.key_dim] = number;
  at[layout.num_kv_heads * kTile * layout.key_dim + position % kTile * layout.value_dim] = number;
  return compare_as(c, pool, pages, {});
}

}  // namespace colibri
