#include "kernels/probe.h"

#include <immintrin.h>

#include <chrono>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kFetchAhead = 4096;  // bytes, as the products do: faster than the hardware alone
constexpr int64_t kRounds = 4'000'000;
constexpr double kChains = 12;

// Four streams, one line of each in turn.
void read_piece(const void* data) {
  constexpr int64_t kStreamBytes = kPieceBytes / 4;
  const char* p = static_cast<const char*>(data);
  __m128i s[4] = {};
  for (int64_t i = 0; i < kStreamBytes; i += 64) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
      const char* line = p + j * kStreamBytes + i;
      _mm_prefetch(line + kFetchAhead, _MM_HINT_T0);
#pragma GCC unroll 4
      for (int64_t k = 0; k < 4; ++k) {
        const __m128i* part = reinterpret_cast<const __m128i*>(line) + k;
        s[j] = _mm_xor_si128(s[j], _mm_load_si128(part));
      }
    }
  }
  asm volatile("" : : "x"(s[0]), "x"(s[1]), "x"(s[2]), "x"(s[3]));
}

// Independent chains by name, so that the compiler keeps them in registers.
#define TWELVE(step)                                                                        \
  step(c0) step(c1) step(c2) step(c3) step(c4) step(c5) step(c6) step(c7) step(c8) step(c9) \
      step(c10) step(c11)
#define LOOP(type, zero, step)                                                                     \
  type c0 = zero, c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0, \
       c10 = c0, c11 = c0;                                                                         \
  for (int64_t i = 0; i < kRounds; ++i) {                                                          \
    TWELVE(step)                                                                                   \
  }

#define FMA(x) asm volatile("vfmadd213ps %1, %1, %0" : "+v"(x) : "v"(one));
__attribute__((target("avx512f"))) void f32_avx512() {
  const __m512 one = _mm512_set1_ps(1.0f);
  LOOP(__m512, _mm512_setzero_ps(), FMA)
}
__attribute__((target("avx2,fma"))) void f32_avx2() {
  const __m256 one = _mm256_set1_ps(1.0f);
  LOOP(__m256, _mm256_setzero_ps(), FMA)
}
#define MUL_ADD(x) asm volatile("mulps %1, %0\n\taddps %1, %0" : "+x"(x) : "x"(one));
void f32_portable() {
  const __m128 one = _mm_set1_ps(1.0f);
  LOOP(__m128, _mm_setzero_ps(), MUL_ADD)
}

#define DOT_BYTES(x) asm volatile("vpdpbusd %1, %1, %0" : "+v"(x) : "v"(ones));
__attribute__((target("avx512f,avx512vnni"))) void int8_avx512() {
  const __m512i ones = _mm512_set1_epi8(1);
  LOOP(__m512i, _mm512_setzero_si512(), DOT_BYTES)
}
#define DOT_PAIRS(x) \
  asm volatile("vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(x), "=&x"(product) : "x"(ones));
__attribute__((target("avx2"))) void int8_avx2() {
  const __m256i ones = _mm256_set1_epi8(1);
  __m256i product;
  LOOP(__m256i, _mm256_setzero_si256(), DOT_PAIRS)
}
#define DOT_WORDS(x)                                             \
  asm volatile("movdqa %2, %1\n\tpmaddwd %2, %1\n\tpaddd %1, %0" \
               : "+x"(x), "=&x"(product)                         \
               : "x"(ones));
void int8_portable() {
  const __m128i ones = _mm_set1_epi8(1);
  __m128i product;
  LOOP(__m128i, _mm_setzero_si128(), DOT_WORDS)
}
#undef DOT_WORDS
#undef DOT_PAIRS
#undef DOT_BYTES
#undef MUL_ADD
#undef FMA
#undef LOOP
#undef TWELVE

// `multiply_adds` of one step.
Probe on_all_threads(ThreadPool& pool, void (*loop)(), double multiply_adds) {
  return {2 * multiply_adds * kChains * static_cast<double>(kRounds) * pool.num_threads(),
          [&pool, loop] { pool.run(pool.num_threads(), [loop](int64_t) { loop(); }); }};
}

void check_available(Isa isa) {
  check(isa_is_available(isa), "probe of ", to_string(isa), ", which this processor lacks");
}

}  // namespace

Probe read_probe(ThreadPool& pool, const void* data, int64_t bytes) {
  const int64_t pieces = bytes / kPieceBytes;
  const auto* first = static_cast<const unsigned char*>(data);
  return {static_cast<double>(pieces * kPieceBytes), [&pool, first, pieces] {
            pool.run(pieces, [first](int64_t i) { read_piece(first + i * kPieceBytes); });
          }};
}

Probe f32_probe(ThreadPool& pool, Isa isa) {
  check_available(isa);
  switch (isa) {
    case Isa::kPortable:
      break;
    case Isa::kAvx2:
      return on_all_threads(pool, f32_avx2, 8);
    case Isa::kAvx512:
      return on_all_threads(pool, f32_avx512, 16);
  }
  return on_all_threads(pool, f32_portable, 4);
}

Probe int8_probe(ThreadPool& pool, Isa isa) {
  check_available(isa);
  switch (isa) {
    case Isa::kPortable:
      break;
    case Isa::kAvx2:
      return on_all_threads(pool, int8_avx2, 32);
    case Isa::kAvx512:
      return on_all_threads(pool, int8_avx512, 64);
  }
  return on_all_threads(pool, int8_portable, 8);
}

double rate_of(const Probe& probe) {
  const auto start = std::chrono::steady_clock::now();
  probe.run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return probe.amount / seconds.count();
}

}  // namespace colibri
