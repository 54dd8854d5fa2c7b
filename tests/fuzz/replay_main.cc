// Runs one fuzz target over the files of the directories it is given, without a fuzzing library.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  int num_files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ostringstream bytes;
      bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      const std::string text = bytes.str();
      std::printf("%s: %zu bytes\n", entry.path().filename().c_str(), text.size());
      std::fflush(stdout);
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      ++num_files;
    }
  }
  if (num_files == 0) std::fprintf(stderr, "no files to replay\n");
  return num_files == 0 ? 1 : 0;
}
