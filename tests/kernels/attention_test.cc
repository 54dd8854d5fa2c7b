// Tiled attention against the formula of its contract, bit for bit, and against doubles.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "tests/kernels/kernel_rig.h"

namespace colibri {
namespace {

struct Shape {
  int64_t heads, kv_heads, key_dim, value_dim;
  bool shared_value = false;
  DType dtype = DType::kF32;
};

// One sequence of `length` positions whose keys and values lie in scattered pages.
class Sequence {
 public:
  Sequence(const Shape& shape, int64_t length, float fill)
      : shape_(shape),
        length_(length),
        layout_{shape.dtype, shape.kv_heads, shape.key_dim, shape.value_dim, shape.shared_value} {
    const int64_t num_pages = (length + kTile - 1) / kTile;
    for (int64_t i = 0; i < num_pages; ++i) {
      pages_.push_back(static_cast<int32_t>(num_pages - i));  // page 0 stays unused
    }
    pool_.resize(static_cast<size_t>((num_pages + 1) * layout_.page_bytes()));
    if (fill != 0) fill_with(fill);
    keys_ = random_floats(length * key_row(), 1);
    values_ = random_floats(length * value_row(), 2);
    q_ = random_floats(length * shape.heads * shape.key_dim, 3);
    for (int64_t p = 0; p < length; ++p) {
      rows_.push_back({pages_.data(), static_cast<int32_t>(p)});
    }
    if (shape.dtype == DType::kBF16) {
      keys_ = from_bf16(to_bf16(keys_));
      values_ = from_bf16(to_bf16(values_));
    }
  }

  // Writes positions [begin, end) to the cache.
  void write(Rig& rig, int64_t begin, int64_t end) {
    rig.ops->kv_write({.layout = layout_,
                       .pool = pool_.data(),
                       .rows = &rows_[begin],
                       .keys = &keys_[begin * key_row()],
                       .values = &values_[begin * value_row()],
                       .num_tokens = end - begin,
                       .key_stride = key_row(),
                       .value_stride = value_row()},
                      *rig.stream);
  }
  // Attention of positions [begin, end).
  std::vector<float> attend(Rig& rig, int64_t begin, int64_t end) const {
    std::vector<float> out(static_cast<size_t>((end - begin) * out_row()), 7.0f);
    Attention a{.layout = layout_,
                .pool = pool_.data(),
                .rows = &rows_[begin],
                .q = &q_[begin * q_row()],
                .out = out.data(),
                .num_tokens = end - begin,
                .num_heads = shape_.heads,
                .q_stride = q_row(),
                .out_stride = out_row(),
                .softmax_scale = kScale};
    std::vector<unsigned char> scratch(
        static_cast<size_t>(rig.ops->attention_scratch_bytes(a, *rig.stream)));
    a.scratch = scratch.data();
    rig.ops->attention(a, *rig.stream);
    return out;
  }
  std::vector<float> write_and_attend(Rig& rig, int64_t chunk) {
    std::vector<float> all;
    for (int64_t begin = 0; begin < length_; begin += chunk) {
      const int64_t end = std::min(length_, begin + chunk);
      write(rig, begin, end);
      const std::vector<float> part = attend(rig, begin, end);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  const float* key(int64_t p, int64_t kv_head) const {
    return &keys_[p * key_row() + kv_head * shape_.key_dim];
  }
  const float* value(int64_t p, int64_t kv_head) const {
    return shape_.shared_value ? key(p, kv_head)
                               : &values_[p * value_row() + kv_head * shape_.value_dim];
  }
  const float* query(int64_t p, int64_t head) const {
    return &q_[p * q_row() + head * shape_.key_dim];
  }
  int64_t key_row() const { return shape_.kv_heads * shape_.key_dim; }
  int64_t value_row() const { return shape_.kv_heads * shape_.value_dim; }
  int64_t q_row() const { return shape_.heads * shape_.key_dim; }
  int64_t out_row() const { return shape_.heads * shape_.value_dim; }
  const Shape& shape() const { return shape_; }
  int64_t length() const { return length_; }

  static constexpr float kScale = 0.7f;

 private:
  void fill_with(float value) {
    if (shape_.dtype == DType::kF32) {
      std::fill_n(reinterpret_cast<float*>(pool_.data()), pool_.size() / 4, value);
    } else {
      std::fill_n(reinterpret_cast<uint16_t*>(pool_.data()), pool_.size() / 2,
                  float_to_bf16(value));
    }
  }
  Shape shape_;
  int64_t length_;
  KvLayout layout_;
  std::vector<unsigned char> pool_;
  std::vector<int32_t> pages_;
  std::vector<KvRow> rows_;
  std::vector<float> keys_, values_, q_;
};

// The contract's formula for one head of one position.
void plain_attention(const Sequence& s, int64_t position, int64_t head, float* out) {
  const Shape& shape = s.shape();
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  float running_m = 0, running_l = 0;
  for (int64_t first = 0; first <= position; first += kTile) {
    const int64_t count = std::min<int64_t>(kTile, position + 1 - first);
    std::vector<float> p(static_cast<size_t>(count));
    for (int64_t j = 0; j < count; ++j) {
      p[j] = plain_dot(s.query(position, head), s.key(first + j, kv_head), shape.key_dim) *
             Sequence::kScale;
    }
    const float m = *std::max_element(p.begin(), p.end());
    float chains[16] = {};
    for (int64_t j = 0; j < count; ++j) {
      p[j] = kernel_exp(p[j] - m);
      chains[j % 16] += p[j];
    }
    const float l = tree(chains);
    const float top = first == 0 ? m : std::max(running_m, m);
    const float a = kernel_exp(running_m - top), b = kernel_exp(m - top);
    for (int64_t d = 0; d < shape.value_dim; ++d) {
      float o = 0;
      for (int64_t j = 0; j < count; ++j) o = std::fmaf(p[j], s.value(first + j, kv_head)[d], o);
      out[d] = first == 0 ? o : std::fmaf(o, b, out[d] * a);
    }
    running_l = first == 0 ? l : std::fmaf(l, b, running_l * a);
    running_m = top;
  }
  for (int64_t d = 0; d < shape.value_dim; ++d) out[d] = out[d] / running_l;
}

std::vector<float> plain_attention(const Sequence& s) {
  std::vector<float> out(static_cast<size_t>(s.length() * s.out_row()));
  for (int64_t p = 0; p < s.length(); ++p) {
    for (int64_t h = 0; h < s.shape().heads; ++h) {
      plain_attention(s, p, h, &out[p * s.out_row() + h * s.shape().value_dim]);
    }
  }
  return out;
}

const std::vector<Shape> kShapes = {
    {4, 2, 16, 16},                       // grouped query
    {3, 3, 17, 9},                        // one query head per kv head, odd widths
    {8, 1, 64, 80},                       // one kv head
    {40, 1, 25, 18, true},                // latent: more heads than one unit holds
    {4, 2, 33, 20, false, DType::kBF16},  // bf16 cache
    {5, 1, 40, 32, true, DType::kBF16},   // latent in bf16
};

TEST(AttentionTest, PrefillIsTheContractsFormulaBitForBitOnEverySet) {
  for (size_t i = 0; i < kShapes.size(); ++i) {
    Sequence s(kShapes[i], 133, 0);
    const std::vector<float> want = plain_attention(s);
    for (const Isa isa : available_isas()) {
      Rig rig(isa);
      EXPECT_EQ(difference(s.write_and_attend(rig, 133), want), "")
          << to_string(isa) << " shape " << i;
    }
  }
}

// Decode, prefill and any chunk give the same rows; so do threads, which split long contexts by
// tile.
TEST(AttentionTest, ChunksAndThreadsDoNotChangeABit) {
  for (const size_t i : {size_t{0}, size_t{3}, size_t{4}}) {
    Sequence s(kShapes[i], 301, 0);
    const std::vector<float> want = plain_attention(s);
    for (const int threads : {1, 2, 3, 5}) {
      Rig rig(best_isa(), threads);
      for (const int64_t chunk : {1, 7, 64, 301}) {
        if (chunk == 1 && threads == 3) continue;
        EXPECT_EQ(difference(s.write_and_attend(rig, chunk), want), "")
            << "shape " << i << " threads " << threads << " chunk " << chunk;
      }
    }
  }
}

// The wide shape's partials need more than one wave on two threads.
TEST(AttentionTest, LongContextSplitByTileHasTheSameBits) {
  const int64_t length = 3000;
  for (const Shape& shape : {Shape{8, 1, 64, 64}, Shape{4, 1, 520, 512, true}}) {
    Sequence s(shape, length, 0);
    std::vector<float> want(static_cast<size_t>(s.out_row()));
    for (int64_t h = 0; h < shape.heads; ++h) {
      plain_attention(s, length - 1, h, &want[h * shape.value_dim]);
    }
    for (const int threads : {1, 2, 5}) {
      Rig rig(best_isa(), threads);
      s.write(rig, 0, length);
      EXPECT_EQ(difference(s.attend(rig, length - 1, length), want), "") << threads;
    }
  }
}

TEST(AttentionTest, SlotsAfterATokensPositionNeverReachIt) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Shape shape = kShapes[0];
    shape.dtype = dtype;
    Sequence clean(shape, 100, 0), dirty(shape, 100, std::numeric_limits<float>::quiet_NaN());
    for (const Isa isa : available_isas()) {
      Rig rig(isa);
      const std::vector<float> want = clean.write_and_attend(rig, 100);
      EXPECT_EQ(difference(dirty.write_and_attend(rig, 33), want), "") << to_string(isa);
    }
  }
}

TEST(AttentionTest, SequencesInOneCallDoNotTouchEachOther) {
  const Shape shape = kShapes[0];
  Rig rig(best_isa(), 2);
  Sequence s(shape, 70, 0);
  const std::vector<float> want = s.write_and_attend(rig, 70);
  // The same pages under two tables: the call sees two sequences.
  const KvLayout layout{shape.dtype, shape.kv_heads, shape.key_dim, shape.value_dim, false};
  const int64_t page = layout.page_elements();
  std::vector<float> pool(static_cast<size_t>(4 * page));
  const std::vector<int32_t> tables[2] = {{0, 1}, {3, 2}};
  std::vector<KvRow> rows;
  std::vector<float> q, keys, values;
  for (int64_t p = 0; p < 70; ++p) {
    for (const auto& table : tables) {
      rows.push_back({table.data(), static_cast<int32_t>(p)});
      q.insert(q.end(), s.query(p, 0), s.query(p, 0) + s.q_row());
      keys.insert(keys.end(), s.key(p, 0), s.key(p, 0) + s.key_row());
      values.insert(values.end(), s.value(p, 0), s.value(p, 0) + s.value_row());
    }
  }
  rig.ops->kv_write({.layout = layout,
                     .pool = pool.data(),
                     .rows = rows.data(),
                     .keys = keys.data(),
                     .values = values.data(),
                     .num_tokens = 140,
                     .key_stride = s.key_row(),
                     .value_stride = s.value_row()},
                    *rig.stream);
  std::vector<float> out(static_cast<size_t>(140 * s.out_row()));
  Attention a{.layout = layout,
              .pool = pool.data(),
              .rows = rows.data(),
              .q = q.data(),
              .out = out.data(),
              .num_tokens = 140,
              .num_heads = shape.heads,
              .q_stride = s.q_row(),
              .out_stride = s.out_row(),
              .softmax_scale = Sequence::kScale};
  std::vector<unsigned char> scratch(
      static_cast<size_t>(rig.ops->attention_scratch_bytes(a, *rig.stream)));
  a.scratch = scratch.data();
  rig.ops->attention(a, *rig.stream);
  for (int64_t p = 0; p < 70; ++p) {
    const std::vector<float> row(want.begin() + p * s.out_row(),
                                 want.begin() + (p + 1) * s.out_row());
    for (const int64_t which : {0, 1}) {
      const auto begin = out.begin() + (2 * p + which) * s.out_row();
      ASSERT_EQ(difference({begin, begin + s.out_row()}, row), "") << p;
    }
  }
}

TEST(AttentionTest, IsCloseToSoftmaxInDouble) {
  Sequence s({2, 1, 48, 32}, 200, 0);
  Rig rig(best_isa());
  const std::vector<float> got = s.write_and_attend(rig, 200);
  for (const int64_t position : {0, 63, 64, 65, 199}) {
    for (int64_t h = 0; h < 2; ++h) {
      std::vector<double> want(32);
      double total = 0;
      for (int64_t j = 0; j <= position; ++j) {
        double score = 0;
        for (int64_t k = 0; k < 48; ++k) score += double{s.query(position, h)[k]} * s.key(j, 0)[k];
        const double p = std::exp(score * double{Sequence::kScale});
        total += p;
        for (size_t d = 0; d < 32; ++d) want[d] += p * s.value(j, 0)[d];
      }
      for (size_t d = 0; d < 32; ++d) {
        const size_t at = static_cast<size_t>(position * s.out_row() + h * 32) + d;
        ASSERT_NEAR(got[at], want[d] / total, 1e-6) << position;
      }
    }
  }
}

}  // namespace
}  // namespace colibri
