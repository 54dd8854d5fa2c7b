// Speed of the CPU kernels as a share of the limit: decode against the read bandwidth, prefill
// against the peak of multiply-adds (of f32, or of bytes for q8 and q4), measured in this process,
// runs interleaved so that a noisy neighbour meets all alike. GB/s is weight bytes read once (1 GB
// = 1e9 bytes), GOP/s counts two a multiply-add. Shares are medians; in parentheses the best.
//
// kernels_bench [isa [threads [repeats [part of a name]]]]      defaults: best, all allowed CPUs, 7
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/device.h"
#include "base/quantised.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "kernels/probe.h"

namespace colibri {
namespace {

enum class Limit { kReadBandwidth, kF32Peak, kInt8Peak, kNone };

struct Entry {
  std::string name;
  Limit limit;
  double amount;  // bytes, operations, or values
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

constexpr int64_t kWeightBytes = int64_t{1536} << 20;  // far more than the caches hold

constexpr int64_t kMaxTokens = 512;

struct Bench {
  Bench(Isa isa, int threads)
      : pool({.num_threads = threads, .cpus = {}, .spin = true}),
        device(make_cpu_device(pool)),
        stream(device->make_stream()),
        ops(make_cpu_ops(isa)),
        weights(kWeightBytes),
        x(int64_t{64} << 20),
        out(int64_t{64} << 20),
        scratch(int64_t{64} << 20),
        scratch_quantised(int64_t{32} << 20) {
    uint32_t seed = 1;
    for (int64_t i = 0; i < kWeightBytes / 4; ++i) {  // bf16 pairs in [1, 2) and (-2, -1]
      seed = seed * 1664525u + 1013904223u;
      weights.as<uint32_t>()[i] = 0x3F803F80u | (seed & 0x807F807Fu);
    }
    for (size_t i = 0; i < x.size_bytes() / 4; ++i) {
      x.as<float>()[i] = static_cast<float>(i % 17) / 16 - 0.5f;
    }
  }

  // Quantised rows of that width.
  const void* quantised_rows(int64_t width) {
    Buffer& rows = x_quantised[width];
    if (rows.data() != nullptr) return rows.data();
    rows = Buffer(static_cast<size_t>(kMaxTokens * activation_row_bytes(width)));
    ops->quantise_rows({.x = x.as<float>(),
                        .out = rows.data(),
                        .num_rows = kMaxTokens,
                        .width = width,
                        .x_stride = width},
                       *stream);
    return rows.data();
  }

  // Decode (few tokens) reads fresh weights in every call and is held against the read bandwidth.
  void add_product(const std::string& name, int64_t rows, DType dtype, double weight_bytes,
                   double operations, const std::function<void()>& run) {
    const Limit peak = is_quantised(dtype) ? Limit::kInt8Peak : Limit::kF32Peak;
    if (is_decode(rows)) {
      entries.push_back({name, Limit::kReadBandwidth, weight_bytes, run});
    } else {
      entries.push_back({name, peak, operations, run});
    }
  }
  // `rows` of each weight.
  static bool is_decode(int64_t rows) { return rows < 16; }
  static std::string suffix(DType dtype, int64_t tokens) {
    return " " + std::string(to_string(dtype)) + " T " + std::to_string(tokens);
  }

  void add_matmul(int64_t tokens, int64_t outputs, int64_t width, DType dtype) {
    const int64_t bytes = matrix_bytes(dtype, outputs, width);
    const int64_t copies = is_decode(tokens) ? kWeightBytes / bytes : 1;
    const void* quantised = quantised_rows(width);
    const auto run = [=, this] {
      for (int64_t c = 0; c < copies; ++c) {
        ops->matmul({.x = x.as<float>(),
                     .x_quantised = quantised,
                     .weight = {static_cast<const char*>(weights.data()) + c * bytes, dtype,
                                outputs, width},
                     .out = out.as<float>(),
                     .num_tokens = tokens,
                     .x_stride = width,
                     .out_stride = outputs},
                    *stream);
      }
    };
    add_product("matmul N " + std::to_string(outputs) + " K " + std::to_string(width) +
                    suffix(dtype, tokens),
                tokens, dtype, double(copies * bytes), 2.0 * tokens * outputs * width, run);
  }

  // A layer's experts, and `tokens` tokens with top_k of them each.
  struct Layer {
    int64_t top_k, num_experts, hidden, width;
  };
  void add_grouped_ffn(int64_t tokens, const Layer& layer, DType dtype) {
    const int64_t hidden = layer.hidden, width = layer.width;
    const int64_t inner = matrix_bytes(dtype, width, hidden);
    const int64_t expert_bytes = 2 * inner + matrix_bytes(dtype, hidden, width);
    auto begin = std::make_shared<std::vector<int32_t>>();
    auto experts = std::make_shared<std::vector<ExpertWeights>>();
    auto rows = std::make_shared<std::vector<int32_t>>();
    auto offsets = std::make_shared<std::vector<int64_t>>();
    const int64_t pairs = tokens * layer.top_k;
    const int64_t used = std::min<int64_t>(pairs, layer.num_experts);
    const int64_t rows_each = pairs / used;
    const int64_t layers = is_decode(rows_each) ? kWeightBytes / (used * expert_bytes) : 1;
    for (int64_t g = 0; g <= used; ++g) begin->push_back(static_cast<int32_t>(g * pairs / used));
    for (int64_t p = 0; p < pairs; ++p) {
      rows->push_back(static_cast<int32_t>(p % tokens));
      offsets->push_back(p * hidden);
    }
    for (int64_t e = 0; e < layers * used; ++e) {
      const char* at = static_cast<const char*>(weights.data()) + e * expert_bytes;
      experts->push_back({{at, dtype, width, hidden},
                          {at + inner, dtype, width, hidden},
                          {at + 2 * inner, dtype, hidden, width}});
    }
    const void* quantised = quantised_rows(hidden);
    const auto run = [=, this] {
      for (int64_t l = 0; l < layers; ++l) {
        ops->grouped_ffn({.x = x.as<float>(),
                          .x_quantised = quantised,
                          .experts = experts->data() + l * used,
                          .group_begin = begin->data(),
                          .pair_row = rows->data(),
                          .out_offset = offsets->data(),
                          .out = out.as<float>(),
                          .hidden = scratch.as<float>(),
                          .hidden_quantised = scratch_quantised.data(),
                          .weight_dtype = dtype,
                          .num_pairs = pairs,
                          .num_groups = static_cast<int32_t>(used),
                          .hidden_size = hidden,
                          .width = width,
                          .x_stride = hidden},
                         *stream);
      }
    };
    const std::string name = "grouped_ffn E " + std::to_string(layer.num_experts) + " K " +
                             std::to_string(layer.top_k) + " H " + std::to_string(hidden) + " I " +
                             std::to_string(width) + suffix(dtype, tokens);
    add_product(name, rows_each, dtype, double(layers * used * expert_bytes),
                6.0 * layers * pairs * hidden * width, run);
  }

  // Cost of weights and rows becoming codes, on one thread and on all.
  void add_encoders(int64_t rows, int64_t width) {
    for (const DType dtype : {DType::kQ8, DType::kQ4}) {
      entries.push_back({"quantise_matrix " + std::string(to_string(dtype)) + ", one thread",
                         Limit::kNone, double(rows * width), [=, this] {
                           quantise_matrix(dtype, x.as<float>(), rows, width, scratch.data());
                         }});
    }
    entries.push_back({"quantise_rows, all threads", Limit::kNone, double(rows * width), [=, this] {
                         ops->quantise_rows({.x = x.as<float>(),
                                             .out = scratch_quantised.data(),
                                             .num_rows = rows,
                                             .width = width,
                                             .x_stride = width},
                                            *stream);
                       }});
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
      entries.push_back({name, Limit::kF32Peak, copies * flops, run});
    }
  }

  // Only the entries whose name holds `filter`.
  void keep(const std::string& filter) {
    std::erase_if(entries,
                  [&](const Entry& entry) { return entry.name.find(filter) == std::string::npos; });
  }

  void run(int repeats) {
    const clockid_t clock = pool.num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    for (int i = 0; i <= repeats; ++i) {
      for (std::vector<Entry>* list : {&probes, &entries}) {
        for (Entry& entry : *list) {
          const double seconds = seconds_of(entry.run, clock);
          if (i > 0) entry.seconds.push_back(seconds);  // the first round warms up
        }
      }
    }
  }

  ThreadPool pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;
  Buffer weights, x, out, scratch, scratch_quantised;
  std::map<int64_t, Buffer> x_quantised;  // by width
  std::vector<Entry> probes;              // in the order of Limit
  std::vector<Entry> entries;
};

double rate(const Entry& entry) { return entry.amount / median(entry.seconds) / 1e9; }

// Of the round where the entry came nearest to the limit measured in the same round.
double best_share(const Entry& entry, const Entry& probe) {
  double best = 0;
  for (size_t i = 0; i < entry.seconds.size(); ++i) {
    best = std::max(best, entry.amount / entry.seconds[i] / (probe.amount / probe.seconds[i]));
  }
  return 100 * best;
}

void print(const Bench& bench) {
  std::printf("%s, %d threads: read %.1f GB/s, peak %.0f f32 GFLOP/s, %.0f int8 GOP/s\n",
              bench.ops->name().c_str(), bench.pool.num_threads(), rate(bench.probes[0]),
              rate(bench.probes[1]), rate(bench.probes[2]));
  for (const Entry& entry : bench.entries) {
    if (entry.limit == Limit::kNone) {
      std::printf("%-58s %8.3f ns/value\n", entry.name.c_str(), 1 / rate(entry));
      continue;
    }
    const Entry& probe = bench.probes[static_cast<size_t>(entry.limit)];
    std::printf("%-58s %8.1f %-5s %5.1f %% of the limit (%.1f)\n", entry.name.c_str(), rate(entry),
                entry.limit == Limit::kReadBandwidth ? "GB/s" : "GOP/s",
                100 * rate(entry) / rate(probe), best_share(entry, probe));
  }
}

void fill_probes(Bench& bench, Isa isa) {
  const auto add = [&](const char* name, const Probe& probe) {
    bench.probes.push_back({name, Limit::kNone, probe.amount, probe.run});
  };
  add("read", read_probe(bench.pool, bench.weights.data(), kWeightBytes));
  add("f32", f32_probe(bench.pool, isa));
  add("int8", int8_probe(bench.pool, isa));
}

void fill_products(Bench& bench) {
  const Bench::Layer qwen3_30b{.top_k = 8, .num_experts = 128, .hidden = 2048, .width = 768};
  for (const DType dtype : {DType::kQ8, DType::kQ4}) {
    for (const int64_t tokens : {1, 2, 4, 8, 64, 512}) {
      bench.add_matmul(tokens, 4096, 4096, dtype);
      bench.add_grouped_ffn(tokens, qwen3_30b, dtype);
    }
  }
  for (const int64_t tokens : {1, 2, 4, 8, 16, 64, 512}) {
    bench.add_matmul(tokens, 4096, 2048, DType::kBF16);
  }
  for (const int64_t tokens : {1, 512}) bench.add_matmul(tokens, 4096, 2048, DType::kF32);
  bench.add_matmul(256, 2048, 7168, DType::kBF16);
  for (const int64_t tokens : {1, 4}) bench.add_grouped_ffn(tokens, qwen3_30b, DType::kBF16);
  bench.add_grouped_ffn(64, {8, 16, 2048, 768}, DType::kBF16);
  bench.add_grouped_ffn(512, {8, 64, 2048, 768}, DType::kBF16);
}

void fill_attention(Bench& bench) {
  const KvLayout grouped{.dtype = DType::kF32, .num_kv_heads = 4, .key_dim = 128, .value_dim = 128};
  const KvLayout latent{.dtype = DType::kF32,
                        .num_kv_heads = 1,
                        .key_dim = 576,
                        .value_dim = 512,
                        .shared_value = true};
  bench.add_attention(1, 4096, 32, grouped);
  bench.add_attention(1, 4096, 128, latent);
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
  fill_probes(bench, isa);
  fill_products(bench);
  fill_attention(bench);
  bench.add_encoders(2048, 4096);
  if (argc > 4) bench.keep(argv[4]);
  bench.run(argc > 3 ? std::atoi(argv[3]) : 7);
  print(bench);
  return 0;
}
