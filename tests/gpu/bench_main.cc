// Speed of the GPU's kernels against what the same process measures the GPU can do: Markdown tables
// on stdout, medians.
//
// gpu_bench [--tiny] [--facts] [experts|products|attention]
//   --tiny   shapes for the simulated device
//   --facts  only the ceilings; ends with 1 where there is no GPU
#include <cstdio>
#include <exception>
#include <string>

#include "tests/gpu/bench_rig.h"

int main(int argc, char** argv) {
  using namespace colibri;
  GpuBenchOptions options;
  bool only_facts = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--tiny") {
      options.is_tiny = true;
      options.repeats = 1;
    } else if (word == "--facts") {
      only_facts = true;
    } else if (word == "experts" || word == "products" || word == "attention") {
      options.only = word;
    } else {
      std::fprintf(stderr,
                   "gpu_bench: '%s' is not known, want --tiny, --facts, experts, products or "
                   "attention\n",
                   word.c_str());
      return 2;
    }
  }
  try {
    GpuBenchRig rig(options);
    rig.measure_ceilings();
    const auto wants = [&](const char* part) {
      return options.only.empty() || options.only == part;
    };
    if (only_facts) return 0;
    if (wants("experts")) bench_experts(rig);
    if (wants("products")) bench_products(rig);
    if (wants("attention")) bench_attention(rig);
    print_counts();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
