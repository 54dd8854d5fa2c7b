// Prints how long a tokenizer takes to load and how fast it encodes and decodes a text file:
//   tokenizer_bench MODEL_DIR TEXT_FILE [REPEATS]
// MB/s counts bytes of text, 1 MB = 10^6 bytes; the best of the repeats is shown.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "model/tokenizer.h"

namespace {

template <class Work>
double best_ms(int repeats, Work work) {
  double best = 1e300;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

void run(const std::string& model_dir, const std::string& text_path, int repeats) {
  std::ostringstream text_stream;
  text_stream << std::ifstream(text_path, std::ios::binary).rdbuf();
  const std::string text = text_stream.str();
  const double load_ms = best_ms(repeats, [&] { colibri::Tokenizer::load(model_dir); });
  const auto tokenizer = colibri::Tokenizer::load(model_dir);
  std::vector<int32_t> ids;
  const double first_ms = best_ms(1, [&] { ids = tokenizer.encode("Hello"); });
  const double encode_ms = best_ms(repeats, [&] { ids = tokenizer.encode(text); });
  const double decode_ms = best_ms(repeats, [&] { tokenizer.decode(ids, false); });
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("load %.2f ms, first encode %.3f ms\n", load_ms, first_ms);
  std::printf("encode %.1f MB/s, decode %.1f MB/s (%zu bytes, %zu ids)\n",
              megabytes / encode_ms * 1e3, megabytes / decode_ms * 1e3, text.size(), ids.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_bench MODEL_DIR TEXT_FILE [REPEATS]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argc > 3 ? std::max(1, std::atoi(argv[3])) : 5);
  } catch (const colibri::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return colibri::exit_code(error.kind());
  }
}
