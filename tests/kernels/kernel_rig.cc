#include "tests/kernels/kernel_rig.h"

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "base/dtype.h"

namespace colibri {

Rig::Rig(Isa isa, int num_threads)
    : pool({.num_threads = num_threads, .cpus = {}, .spin = false}),
      device(make_cpu_device(pool)),
      stream(device->make_stream()),
      ops(make_cpu_ops(isa)) {}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_is_available(isa)) isas.push_back(isa);
  }
  return isas;
}

const KernelTable& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return portable_kernels();
    case Isa::kAvx2:
      return avx2_kernels();
    case Isa::kAvx512:
      return avx512_kernels();
  }
  return portable_kernels();
}

std::string difference(const std::vector<float>& got, const std::vector<float>& want) {
  std::ostringstream text;
  if (got.size() != want.size()) {
    text << got.size() << " numbers, want " << want.size();
    return text.str();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(float)) == 0) continue;
    text << std::hexfloat << "number " << i << " is " << got[i] << ", want " << want[i];
    return text.str();
  }
  return "";
}

float tree(const float (&chains)[16]) {
  float s[16];
  std::memcpy(s, chains, sizeof s);
  for (int half = 8; half >= 1; half /= 2) {
    for (int j = 0; j < half; ++j) s[j] = s[j] + s[j + half];
  }
  return s[0];
}

float plain_dot(const float* x, const float* w, int64_t count) {
  float chains[16] = {};
  const int64_t padded = (count + 15) / 16 * 16;
  for (int64_t k = 0; k < padded; ++k) {
    const float a = k < count ? x[k] : 0.0f, b = k < count ? w[k] : 0.0f;
    chains[k % 16] = std::fmaf(a, b, chains[k % 16]);
  }
  return tree(chains);
}

float kernel_exp(float x) {
  float result;
  portable_kernels().exp(&x, &result, 1);
  return result;
}

}  // namespace colibri
