// Operations that only move numbers, or need one rounding each: plain loops give the same bits on
// every instruction set, so they are compiled once.
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/series.h"
#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

float widen(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// As base/dtype.h's float_to_bf16, here where the compiler can vectorise it.
uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u : rounded);
}

void copy_to_cache(DType dtype, const float* from, int64_t count, unsigned char* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  uint16_t* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = narrow(from[i]);
}

void write_token(const KvWrite& a, int64_t t) {
  const KvLayout& layout = a.layout;
  const int64_t element = static_cast<int64_t>(size_of(layout.dtype));
  const int32_t position = a.rows[t].position;
  unsigned char* page =
      static_cast<unsigned char*>(a.pool) + a.rows[t].pages[position / kTile] * layout.page_bytes();
  unsigned char* values = page + layout.num_kv_heads * kTile * layout.key_dim * element;
  for (int64_t h = 0; h < layout.num_kv_heads; ++h) {
    const int64_t slot = h * kTile + position % kTile;
    copy_to_cache(layout.dtype, a.keys + t * a.key_stride + h * layout.key_dim, layout.key_dim,
                  page + slot * layout.key_dim * element);
    if (layout.shared_value) continue;
    copy_to_cache(layout.dtype, a.values + t * a.value_stride + h * layout.value_dim,
                  layout.value_dim, values + slot * layout.value_dim * element);
  }
}

// sin and cos of a float's worth of angle, |angle| below 2^21 or so, within 1e-13.
// angle = n pi/2 + r with pi/2 in three parts of 33 bits: n times the first two is exact for n
// below 2^20.
SinCos sin_cos(double angle) {
  const double n = std::floor(angle * 0.63661977236758134308 + 0.5);
  double r = angle - n * 0x1.921fb544p+0;
  r -= n * 0x1.0b4611a6p-34;
  r -= n * 0x1.3198a2e037073p-69;
  const auto [s, c] = sin_cos_series(r);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
  }
  return {-c, s};
}

}  // namespace

void CpuOps::embed(const EmbedRows& a, Stream& stream) {
  const int64_t width = a.table.cols;
  run_ranges(host_pool(stream), a.num_tokens, width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* out = a.out + t * width;
      if (a.table.dtype == DType::kF32) {
        const float* row = static_cast<const float*>(a.table.data) + a.ids[t] * width;
        std::memcpy(out, row, static_cast<size_t>(width) * sizeof(float));
      } else {
        const uint16_t* row = static_cast<const uint16_t*>(a.table.data) + a.ids[t] * width;
        for (int64_t i = 0; i < width; ++i) out[i] = widen(row[i]);
      }
    }
  });
}

void CpuOps::round_rows(const RoundRows& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, a.width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = a.x + row * a.x_stride;
      for (int64_t i = 0; i < a.width; ++i) a.out[row * a.width + i] = narrow(x[i]);
    }
  });
}

void CpuOps::rope_angles(const RopeAngles& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_tokens, 64 * a.half_dim, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < a.half_dim; ++i) {
        const float angle = static_cast<float>(a.positions[t]) * a.inv_freq[i];
        const SinCos both = sin_cos(static_cast<double>(angle));
        const double scale = static_cast<double>(a.scale);
        a.cos[t * a.half_dim + i] = static_cast<float>(both.cos * scale);
        a.sin[t * a.half_dim + i] = static_cast<float>(both.sin * scale);
      }
    }
  });
}

void CpuOps::kv_write(const KvWrite& a, Stream& stream) {
  const int64_t row = a.layout.num_kv_heads * (a.layout.key_dim + a.layout.value_dim);
  run_ranges(host_pool(stream), a.num_tokens, row, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) write_token(a, t);
  });
}

void CpuOps::gather_rows(const GatherRows& a, Stream& stream) {
  run_ranges(host_pool(stream), a.num_rows, a.width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(a.out + i * a.width, a.x + a.row[i] * a.width,
                  static_cast<size_t>(a.width) * sizeof(float));
    }
  });
}

void CpuOps::add(const Elementwise& a, Stream& stream) {
  run_ranges(host_pool(stream), a.count, 1, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) a.x[i] += a.other[i];
  });
}

void CpuOps::clamp(const Elementwise& a, Stream& stream) {
  run_ranges(host_pool(stream), a.count, 1, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float x = a.x[i];
      const float raised = x < a.low ? a.low : x;
      a.x[i] = raised > a.high ? a.high : raised;
    }
  });
}

}  // namespace colibri
