// Speed of the CPU kernels as a share of the limit: decode against the read bandwidth, prefill
// against the multiply-add peak, both measured in this process, runs interleaved so that a noisy
// neighbour meets all alike. GB/s is weight bytes read once (1 GB = 1e9 bytes), GFLOP/s two a
// multiply-add.
//
// kernels_bench [isa [threads [repeats [part of a name]]]]      defaults: best, all allowed CPUs, 7
#include <immintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/device.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"

namespace colibri {
namespace {

enum class Limit { kReadBandwidth, kPeak, kNone };

struct Entry {
  std::string name;
  Limit limit;
  double amount;  // bytes, or floating-point operations
  std::function<void()> run;
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_on(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of(const std::function<void()>& run, clockid_t clock) {
  const double start = seconds_on(clock);
  run();
  return seconds_on(clock) - start;
}

// Reads `bytes` in tasks of 1 MB, four streams each, as a kernel reads four rows.
__attribute__((target("avx2"))) void read_task(const void* data) {
  constexpr int64_t kStream = (1 << 18) / 32;
  const __m256i* p = static_cast<const __m256i*>(data);
  __m256i s[4] = {};
  for (int64_t i = 0; i < kStream; i += 2) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
      s[j] = _mm256_xor_si256(s[j], _mm256_load_si256(p + j * kStream + i));
      s[j] = _mm256_xor_si256(s[j], _mm256_load_si256(p + j * kStream + i + 1));
    }
  }
  asm volatile("" : : "x"(s[0]), "x"(s[1]), "x"(s[2]), "x"(s[3]));
}

void read_all(ThreadPool& pool, const void* data, int64_t bytes) {
  pool.run(bytes >> 20,
           [&](int64_t task) { read_task(static_cast<const char*>(data) + (task << 20)); });
}

constexpr int64_t kPeakRounds = 4'000'000;

template <class Body>
void run_on_all(ThreadPool& pool, const Body& body) {
  pool.run(pool.num_threads(), [&](int64_t) { body(); });
}

// Twelve independent chains of multiply-adds, by name, so that the compiler keeps them in
// registers.
#define TWELVE_CHAINS(type, value)                                                         \
  type c0 = value, c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, \
       c9 = c0, c10 = c0, c11 = c0
#define STEP(x) asm volatile("vfmadd213ps %1, %1, %0" : "+v"(x) : "v"(one))

__attribute__((target("avx512f"))) void fma_512() {
  const __m512 one = _mm512_set1_ps(1.0f);
  TWELVE_CHAINS(__m512, _mm512_setzero_ps());
  for (int64_t i = 0; i < kPeakRounds; ++i) {
    STEP(c0);
    STEP(c1);
    STEP(c2);
    STEP(c3);
    STEP(c4);
    STEP(c5);
    STEP(c6);
    STEP(c7);
    STEP(c8);
    STEP(c9);
    STEP(c10);
    STEP(c11);
  }
}

__attribute__((target("avx2,fma"))) void fma_256() {
  const __m256 one = _mm256_set1_ps(1.0f);
  TWELVE_CHAINS(__m256, _mm256_setzero_ps());
  for (int64_t i = 0; i < kPeakRounds; ++i) {
    STEP(c0);
    STEP(c1);
    STEP(c2);
    STEP(c3);
    STEP(c4);
    STEP(c5);
    STEP(c6);
    STEP(c7);
    STEP(c8);
    STEP(c9);
    STEP(c10);
    STEP(c11);
  }
}
#undef STEP
#undef TWELVE_CHAINS

// The peak of the hardware's multiply-adds in the vectors that `isa` may use.
Entry peak_probe(ThreadPool& pool, Isa isa) {
  const bool wide = isa == Isa::kAvx512;
  const double lanes = wide ? 16 : 8;
  return {"peak probe", Limit::kNone, 2 * lanes * 12 * double{kPeakRounds} * pool.num_threads(),
          [&pool, wide] { run_on_all(pool, wide ? fma_512 : fma_256); }};
}

constexpr int64_t kWeightBytes = int64_t{1536} << 20;  // far more than the caches hold

struct Bench {
  Bench(Isa isa, int threads)
      : pool({.num_threads = threads, .cpus = {}, .spin = true}),
        device(make_cpu_device(pool)),
        stream(device->make_stream()),
        ops(make_cpu_ops(isa)),
        weights(kWeightBytes),
        x(int64_t{64} << 20),
        out(int64_t{64} << 20),
        scratch(int64_t{64} << 20) {
    uint32_t seed = 1;
    for (int64_t i = 0; i < kWeightBytes / 4; ++i) {  // bf16 pairs in [1, 2) and (-2, -1]
      seed = seed * 1664525u + 1013904223u;
      weights.as<uint32_t>()[i] = 0x3F803F80u | (seed & 0x807F807Fu);
    }
    for (size_t i = 0; i < x.size_bytes() / 4; ++i) {
      x.as<float>()[i] = static_cast<float>(i % 17) / 16 - 0.5f;
    }
  }

  void add_matmul(int64_t tokens, int64_t outputs, int64_t width, DType dtype) {
    const int64_t bytes = outputs * width * static_cast<int64_t>(size_of(dtype));
    const int64_t copies = tokens < 16 ? kWeightBytes / bytes : 1;  // decode: always fresh weights
    const auto run = [=, this] {
      for (int64_t c = 0; c < copies; ++c) {
        ops->matmul({.x = x.as<float>(),
                     .weight = {static_cast<const char*>(weights.data()) + c * bytes, dtype,
                                outputs, width},
                     .out = out.as<float>(),
                     .num_tokens = tokens,
                     .x_stride = width,
                     .out_stride = outputs},
                    *stream);
      }
    };
    const std::string name = "matmul " + std::string(to_string(dtype)) + " N " +
                             std::to_string(outputs) + " K " + std::to_string(width) + " T " +
                             std::to_string(tokens);
    if (tokens < 16) {
      entries.push_back({name, Limit::kReadBandwidth, double(copies * bytes), run});
    } else {
      entries.push_back({name, Limit::kPeak, 2.0 * tokens * outputs * width, run});
    }
  }

  // `tokens` tokens, top_k experts each of a layer of num_experts, bf16.
  void add_grouped_ffn(int64_t tokens, int64_t top_k, int32_t num_experts, int64_t hidden,
                       int64_t width) {
    const int64_t matrix = hidden * width * 2;
    auto begin = std::make_shared<std::vector<int32_t>>();
    auto experts = std::make_shared<std::vector<ExpertWeights>>();
    auto rows = std::make_shared<std::vector<int32_t>>();
    auto offsets = std::make_shared<std::vector<int64_t>>();
    const int64_t pairs = tokens * top_k;
    const int64_t used = std::min<int64_t>(pairs, num_experts);
    const int64_t layers = tokens < 16 ? kWeightBytes / (used * 3 * matrix) : 1;
    for (int64_t g = 0; g <= used; ++g) begin->push_back(static_cast<int32_t>(g * pairs / used));
    for (int64_t p = 0; p < pairs; ++p) {
      rows->push_back(static_cast<int32_t>(p % tokens));
      offsets->push_back(p * hidden);
    }
    for (int64_t l = 0; l < layers; ++l) {
      for (int64_t g = 0; g < used; ++g) {
        const char* at = static_cast<const char*>(weights.data()) + (l * used + g) * 3 * matrix;
        experts->push_back({{at, DType::kBF16, width, hidden},
                            {at + matrix, DType::kBF16, width, hidden},
                            {at + 2 * matrix, DType::kBF16, hidden, width}});
      }
    }
    const auto run = [=, this] {
      for (int64_t l = 0; l < layers; ++l) {
        ops->grouped_ffn({.x = x.as<float>(),
                          .experts = experts->data() + l * used,
                          .group_begin = begin->data(),
                          .pair_row = rows->data(),
                          .out_offset = offsets->data(),
                          .out = out.as<float>(),
                          .hidden = scratch.as<float>(),
                          .num_groups = static_cast<int32_t>(used),
                          .hidden_size = hidden,
                          .width = width,
                          .x_stride = hidden},
                         *stream);
      }
    };
    const std::string name = "grouped_ffn E " + std::to_string(num_experts) + " K " +
                             std::to_string(top_k) + " H " + std::to_string(hidden) + " I " +
                             std::to_string(width) + " T " + std::to_string(tokens);
    const double weights_read = double(layers * used * 3 * matrix);
    if (tokens < 16) {
      entries.push_back({name, Limit::kReadBandwidth, weights_read, run});
    } else {
      entries.push_back({name, Limit::kPeak, 6.0 * layers * pairs * hidden * width, run});
    }
  }

  // `tokens` consecutive tokens ending at position context - 1; decode counts the bytes of the
  // cache.
  void add_attention(int64_t tokens, int64_t context, int64_t heads, KvLayout layout) {
    const int64_t pages = (context + kTile - 1) / kTile;
    auto table = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(pages));
    std::iota(table->begin(), table->end(), 0);
    auto rows = std::make_shared<std::vector<KvRow>>();
    for (int64_t t = 0; t < tokens; ++t) {
      rows->push_back({table->data(), static_cast<int32_t>(context - tokens + t)});
    }
    const int64_t bytes = pages * layout.page_bytes();
    const int64_t copies = tokens == 1 ? kWeightBytes / bytes : 1;
    const auto run = [=, this, table = table] {
      for (int64_t c = 0; c < copies; ++c) {
        Attention a{.layout = layout,
                    .pool = static_cast<const char*>(weights.data()) + c * bytes,
                    .rows = rows->data(),
                    .q = x.as<float>(),
                    .out = out.as<float>(),
                    .scratch = scratch.data(),
                    .num_tokens = tokens,
                    .num_heads = heads,
                    .q_stride = heads * layout.key_dim,
                    .out_stride = heads * layout.value_dim,
                    .softmax_scale = 1e-20f};
        ops->attention(a, *stream);
      }
    };
    double pairs = 0;
    for (int64_t t = 0; t < tokens; ++t) pairs += double(context - tokens + t + 1);
    const double flops = 2 * pairs * heads * (layout.key_dim + layout.value_dim);
    const std::string name = "attention " + std::string(to_string(layout.dtype)) + " heads " +
                             std::to_string(heads) + "/" + std::to_string(layout.num_kv_heads) +
                             " dim " + std::to_string(layout.key_dim) + " context " +
                             std::to_string(context) + " T " + std::to_string(tokens);
    if (tokens == 1 && layout.num_kv_heads > 1) {
      entries.push_back({name, Limit::kReadBandwidth, double(copies * bytes), run});
    } else {
      entries.push_back({name, Limit::kPeak, copies * flops, run});
    }
  }

  // Only the entries whose name holds `filter`, and the two probes.
  void keep(const std::string& filter) {
    std::erase_if(entries, [&](const Entry& entry) {
      return entry.limit != Limit::kNone && entry.name.find(filter) == std::string::npos;
    });
  }

  void run(int repeats) {
    const clockid_t clock = pool.num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    for (int i = 0; i <= repeats; ++i) {
      for (Entry& entry : entries) {
        const double seconds = seconds_of(entry.run, clock);
        if (i > 0) entry.seconds.push_back(seconds);  // the first round warms up
      }
    }
  }

  ThreadPool pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;
  Buffer weights, x, out, scratch;
  std::vector<Entry> entries;
};

void print(const Bench& bench) {
  const double read = bench.entries[0].amount / median(bench.entries[0].seconds) / 1e9;
  const double peak = bench.entries[1].amount / median(bench.entries[1].seconds) / 1e9;
  std::printf("%s, %d threads: read %.1f GB/s, peak %.0f GFLOP/s\n", bench.ops->name().c_str(),
              bench.pool.num_threads(), read, peak);
  for (size_t i = 2; i < bench.entries.size(); ++i) {
    const Entry& entry = bench.entries[i];
    const double rate = entry.amount / median(entry.seconds) / 1e9;
    const bool is_read = entry.limit == Limit::kReadBandwidth;
    std::printf("%-58s %8.1f %-8s %5.1f %% of the limit\n", entry.name.c_str(), rate,
                is_read ? "GB/s" : "GFLOP/s", 100 * rate / (is_read ? read : peak));
  }
}

void fill(Bench& bench, Isa isa) {
  bench.entries.push_back({"read probe", Limit::kNone, double(kWeightBytes),
                           [&bench] { read_all(bench.pool, bench.weights.data(), kWeightBytes); }});
  bench.entries.push_back(peak_probe(bench.pool, isa));
  for (const int64_t tokens : {1, 2, 4, 8}) bench.add_matmul(tokens, 4096, 2048, DType::kBF16);
  bench.add_matmul(1, 4096, 2048, DType::kF32);
  bench.add_grouped_ffn(1, 8, 128, 2048, 768);
  bench.add_grouped_ffn(4, 8, 128, 2048, 768);
  const KvLayout grouped{.dtype = DType::kF32, .num_kv_heads = 4, .key_dim = 128, .value_dim = 128};
  const KvLayout latent{.dtype = DType::kF32,
                        .num_kv_heads = 1,
                        .key_dim = 576,
                        .value_dim = 512,
                        .shared_value = true};
  bench.add_attention(1, 4096, 32, grouped);
  bench.add_attention(1, 4096, 128, latent);
  for (const int64_t tokens : {16, 64, 512}) bench.add_matmul(tokens, 4096, 2048, DType::kBF16);
  bench.add_matmul(512, 4096, 2048, DType::kF32);
  bench.add_matmul(256, 2048, 7168, DType::kBF16);
  bench.add_grouped_ffn(64, 8, 16, 2048, 768);
  bench.add_grouped_ffn(512, 8, 64, 2048, 768);
  bench.add_attention(64, 1024, 32, grouped);
  bench.add_attention(16, 1024, 128, latent);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  Isa isa = best_isa();
  for (const Isa candidate : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (argc > 1 && std::string(argv[1]) == to_string(candidate)) isa = candidate;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : static_cast<int>(allowed_cpus().size());
  Bench bench(isa, threads);
  fill(bench, isa);
  if (argc > 4) bench.keep(argv[4]);
  bench.run(argc > 3 ? std::atoi(argv[3]) : 7);
  print(bench);
  return 0;
}
