// From starting the process to its first token, and the size of the program.
//   build/release/start_bench [RUNS]
// One rank without MPI on the demo model, "ROMEO:", greedy; the first byte on stdout is the first
// token's text. Prints the median, least and greatest of RUNS (21) runs after one that is not
// counted, and the stripped program's size.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

const std::string kProgram = COLIBRI_BINARY_DIR "/colibri";

void run_program(int write_end) {
  ::dup2(write_end, 1);
  const int nothing = ::open("/dev/null", O_WRONLY);
  ::dup2(nothing, 2);
  ::execl(kProgram.c_str(), kProgram.c_str(), "generate", "--model",
          COLIBRI_SOURCE_DIR "/configs/models/demo", "--prompt", "ROMEO:", "--greedy",
          "--max-tokens", "8", nullptr);
  ::_exit(127);
}

double ms_to_first_byte() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::exit(1);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) run_program(ends[1]);
  ::close(ends[1]);
  char byte = 0;
  const bool got = ::read(ends[0], &byte, 1) == 1;
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  ::close(ends[0]);
  ::waitpid(pid, nullptr, 0);
  if (!got) std::exit(1);
  return ms;
}

// Bytes of the program without symbols; 0 where there is no strip.
size_t stripped_bytes() {
  const std::string copy = kProgram + ".stripped";
  const std::string command = "strip -o '" + copy + "' '" + kProgram + "'";
  if (std::system(command.c_str()) != 0) return 0;
  const size_t bytes = std::filesystem::file_size(copy);
  std::filesystem::remove(copy);
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 21;
  ms_to_first_byte();
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(ms_to_first_byte());
  std::sort(times.begin(), times.end());
  std::printf("process start to first token: median %.1f ms, least %.1f, greatest %.1f (%d runs)\n",
              times[times.size() / 2], times.front(), times.back(), runs);
  std::printf("stripped program: %.2f MB\n", static_cast<double>(stripped_bytes()) / 1e6);
  return 0;
}
