// Attention in units of up to kMaxQueryRows query rows of one kv head and one sequence. A unit
// walks its tiles in order, or, when there are fewer units than threads want, tiles are computed
// apart in waves and merged in order: the same partials, the same merges, the same bits.
#include <array>

#include "base/dtype.h"
#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

constexpr int64_t kPartialBytesPerThread = 1 << 20;
constexpr int64_t kAlign = 64;

// Query rows of one unit.
struct UnitRows {
  int num_rows = 0;
  int64_t kv_head = 0;
  const int32_t* pages = nullptr;
  int64_t num_tiles = 0;  // of its farthest row
  std::array<const float*, kMaxQueryRows> q;
  std::array<float*, kMaxQueryRows> out;
  std::array<int32_t, kMaxQueryRows> position;
};

using Limits = std::array<int32_t, kMaxQueryRows>;

// How much of tile `tile` each row sees.
Limits limits_of(const UnitRows& unit, int64_t tile) {
  Limits limits;
  for (int r = 0; r < unit.num_rows; ++r) {
    limits[r] =
        static_cast<int32_t>(std::clamp<int64_t>(unit.position[r] + 1 - tile * kTile, 0, kTile));
  }
  return limits;
}

// The call cut into units: blocks of consecutive tokens of one sequence x kv heads x chunks of
// heads.
class Units {
 public:
  // Writes the blocks' first tokens to block_begin [num_tokens + 1].
  Units(const Attention& a, int32_t* block_begin) : a_(a), block_begin_(block_begin) {
    group_ = a.num_heads / a.layout.num_kv_heads;
    heads_per_unit_ = std::min<int64_t>(group_, kMaxQueryRows);
    head_chunks_ = divide_up(group_, heads_per_unit_);
    const int64_t most_tokens = kMaxQueryRows / heads_per_unit_;
    for (int64_t t = 0; t < a.num_tokens; ++t) {
      const bool continues = t > 0 && a.rows[t].pages == a.rows[t - 1].pages &&
                             t - block_begin_[num_blocks_ - 1] < most_tokens;
      if (!continues) block_begin_[num_blocks_++] = static_cast<int32_t>(t);
      work_ += (a.rows[t].position + 1) * a.num_heads * (a.layout.key_dim + a.layout.value_dim);
      num_tiles_ = std::max<int64_t>(num_tiles_, a.rows[t].position / kTile + 1);
    }
    block_begin_[num_blocks_] = static_cast<int32_t>(a.num_tokens);
  }

  int64_t count() const { return num_blocks_ * a_.layout.num_kv_heads * head_chunks_; }
  int64_t work() const { return work_; }
  int64_t num_tiles() const { return num_tiles_; }

  UnitRows rows_of(int64_t i) const {
    UnitRows unit;
    const int64_t chunk = i % head_chunks_;
    unit.kv_head = i / head_chunks_ % a_.layout.num_kv_heads;
    const int64_t block = i / head_chunks_ / a_.layout.num_kv_heads;
    const int64_t first_head = unit.kv_head * group_ + chunk * heads_per_unit_;
    const int64_t heads = std::min(heads_per_unit_, group_ - chunk * heads_per_unit_);
    unit.pages = a_.rows[block_begin_[block]].pages;
    for (int64_t t = block_begin_[block]; t < block_begin_[block + 1]; ++t) {
      unit.num_tiles = std::max<int64_t>(unit.num_tiles, a_.rows[t].position / kTile + 1);
      for (int64_t h = first_head; h < first_head + heads; ++h) {
        unit.q[unit.num_rows] = a_.q + t * a_.q_stride + h * a_.layout.key_dim;
        unit.out[unit.num_rows] = a_.out + t * a_.out_stride + h * a_.layout.value_dim;
        unit.position[unit.num_rows++] = a_.rows[t].position;
      }
    }
    return unit;
  }

 private:
  const Attention& a_;
  int32_t* block_begin_;
  int64_t group_ = 1, heads_per_unit_ = 1, head_chunks_ = 1;
  int64_t num_blocks_ = 0, work_ = 0, num_tiles_ = 0;
};

// Where a tile's results go: running state of a unit, or one partial.
struct TileResult {
  float* m;
  float* l;
  float* const* o;
  bool merge;
};

void attend(const KernelTable& kernels, const Attention& a, const UnitRows& unit, int64_t tile,
            const TileResult& result) {
  const KvLayout& layout = a.layout;
  const int64_t element = static_cast<int64_t>(size_of(layout.dtype));
  const int64_t key_bytes = kTile * layout.key_dim * element;
  const auto keys_of = [&](int64_t t) {
    return static_cast<const unsigned char*>(a.pool) + unit.pages[t] * layout.page_bytes() +
           unit.kv_head * key_bytes;
  };
  const unsigned char* keys = keys_of(tile);
  const unsigned char* values = keys + (layout.num_kv_heads - unit.kv_head) * key_bytes +
                                unit.kv_head * kTile * layout.value_dim * element;
  const Limits limits = limits_of(unit, tile);
  kernels.attend_tile({.keys = keys,
                       .values = layout.shared_value ? keys : values,
                       .next_keys = tile + 1 < unit.num_tiles ? keys_of(tile + 1) : nullptr,
                       .is_bf16 = layout.dtype == DType::kBF16,
                       .key_dim = layout.key_dim,
                       .value_dim = layout.value_dim,
                       .value_stride = layout.shared_value ? layout.key_dim : layout.value_dim,
                       .scale = a.softmax_scale,
                       .merge = result.merge,
                       .num_rows = unit.num_rows,
                       .q = unit.q.data(),
                       .limit = limits.data(),
                       .m = result.m,
                       .l = result.l,
                       .o = result.o});
}

void attend_in_order(const KernelTable& kernels, const Attention& a, const UnitRows& unit) {
  std::array<float, kMaxQueryRows> m, l;
  for (int64_t tile = 0; tile < unit.num_tiles; ++tile) {
    attend(kernels, a, unit, tile, {m.data(), l.data(), unit.out.data(), tile > 0});
  }
  for (int r = 0; r < unit.num_rows; ++r) kernels.divide(unit.out[r], l[r], a.layout.value_dim);
}

// Memory of the form with waves: running m and l of each unit, then one partial per unit and tile.
struct WaveMemory {
  float* running;   // [units][2][kMaxQueryRows]
  float* partials;  // [tiles of a wave][units][partial_floats]
  int64_t partial_floats;
  int64_t tiles;  // of a wave

  float* m(int64_t unit) const { return running + unit * 2 * kMaxQueryRows; }
  float* l(int64_t unit) const { return m(unit) + kMaxQueryRows; }
};

int64_t partial_floats(const KvLayout& layout) { return kMaxQueryRows * (layout.value_dim + 2); }

// A partial is m, l, then o of each row.
void compute_partial(const KernelTable& kernels, const Attention& a, const UnitRows& unit,
                     int64_t tile, float* partial) {
  std::array<float*, kMaxQueryRows> o;
  for (int r = 0; r < unit.num_rows; ++r) {
    o[r] = partial + 2 * kMaxQueryRows + r * a.layout.value_dim;
  }
  attend(kernels, a, unit, tile, {partial, partial + kMaxQueryRows, o.data(), false});
}

void merge_tile(const KernelTable& kernels, const Attention& a, const UnitRows& unit, int64_t tile,
                const float* partial, float* m, float* l) {
  const Limits limits = limits_of(unit, tile);
  for (int r = 0; r < unit.num_rows; ++r) {
    if (limits[r] == 0) continue;
    const float* o = partial + 2 * kMaxQueryRows + r * a.layout.value_dim;
    if (tile == 0) {
      m[r] = partial[r];
      l[r] = partial[kMaxQueryRows + r];
      std::copy(o, o + a.layout.value_dim, unit.out[r]);
    } else {
      kernels.merge_partial({.running_m = m + r,
                             .running_l = l + r,
                             .running_o = unit.out[r],
                             .m = partial[r],
                             .l = partial[kMaxQueryRows + r],
                             .o = o,
                             .value_dim = a.layout.value_dim});
    }
  }
}

void attend_in_waves(const KernelTable& kernels, const Attention& a, const Units& units,
                     const WaveMemory& memory, ThreadPool& pool) {
  const int64_t num_units = units.count();
  const auto partial_of = [&](int64_t unit, int64_t tile_of_wave) {
    return memory.partials + (tile_of_wave * num_units + unit) * memory.partial_floats;
  };
  for (int64_t first = 0; first < units.num_tiles(); first += memory.tiles) {
    const int64_t tiles = std::min(memory.tiles, units.num_tiles() - first);
    const int64_t spans = std::min(tiles, divide_up(4 * pool.num_threads(), num_units));
    const int64_t span = divide_up(tiles, spans);
    run_tasks(pool, num_units * divide_up(tiles, span), [&](int64_t i) {
      const int64_t u = i % num_units, begin = i / num_units * span;
      const UnitRows unit = units.rows_of(u);
      for (int64_t w = begin; w < std::min(tiles, begin + span); ++w) {
        if (first + w < unit.num_tiles) {
          compute_partial(kernels, a, unit, first + w, partial_of(u, w));
        }
      }
    });
    run_tasks(pool, num_units, [&](int64_t u) {
      const UnitRows unit = units.rows_of(u);
      for (int64_t w = 0; w < std::min(tiles, unit.num_tiles - first); ++w) {
        merge_tile(kernels, a, unit, first + w, partial_of(u, w), memory.m(u), memory.l(u));
      }
    });
  }
  for (int64_t u = 0; u < num_units; ++u) {
    const UnitRows unit = units.rows_of(u);
    for (int r = 0; r < unit.num_rows; ++r) {
      kernels.divide(unit.out[r], memory.l(u)[r], a.layout.value_dim);
    }
  }
}

// Below this many units there are waves; the scratch holds at least one tile of each.
int64_t most_units_in_waves(const ThreadPool& pool) {
  return pool.num_threads() == 1 ? 0 : 2 * pool.num_threads() - 1;
}

int64_t block_bytes(int64_t num_tokens) {
  return divide_up((num_tokens + 1) * static_cast<int64_t>(sizeof(int32_t)), kAlign) * kAlign;
}

int64_t running_floats(const ThreadPool& pool) {
  return most_units_in_waves(pool) * 2 * kMaxQueryRows;
}

int64_t all_partial_floats(const KvLayout& layout, const ThreadPool& pool) {
  const int64_t units = most_units_in_waves(pool);
  if (units == 0) return 0;
  return std::max(units * partial_floats(layout),
                  pool.num_threads() * kPartialBytesPerThread / int64_t{sizeof(float)});
}

}  // namespace

int64_t CpuOps::attention_scratch_bytes(const Attention& largest, Stream& stream) {
  const ThreadPool& pool = host_pool(stream);
  return block_bytes(largest.num_tokens) +
         int64_t{sizeof(float)} * (running_floats(pool) + all_partial_floats(largest.layout, pool));
}

void CpuOps::attention(const Attention& a, Stream& stream) {
  if (a.num_tokens == 0) return;
  ThreadPool& pool = host_pool(stream);
  const Units units(a, static_cast<int32_t*>(a.scratch));
  const int64_t num_units = units.count();
  if (count_tasks(units.work(), pool) == 1) {
    for (int64_t u = 0; u < num_units; ++u) attend_in_order(kernels_, a, units.rows_of(u));
    return;
  }
  if (num_units > most_units_in_waves(pool) || units.num_tiles() == 1) {
    run_tasks(pool, num_units, [&](int64_t u) { attend_in_order(kernels_, a, units.rows_of(u)); });
    return;
  }
  WaveMemory memory;
  memory.running =
      reinterpret_cast<float*>(static_cast<unsigned char*>(a.scratch) + block_bytes(a.num_tokens));
  memory.partials = memory.running + running_floats(pool);
  memory.partial_floats = partial_floats(a.layout);
  memory.tiles = all_partial_floats(a.layout, pool) / (num_units * memory.partial_floats);
  attend_in_waves(kernels_, a, units, memory, pool);
}

}  // namespace colibri
