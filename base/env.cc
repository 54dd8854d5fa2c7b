#include "base/env.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/error.h"

namespace colibri {
namespace {

constexpr std::string_view kPrefix = "COLIBRI_";

constexpr std::array kVariables = {
    EnvVariable{"COLIBRI_CUDA_LIBRARY", "a path", "libcolibri_cuda.so beside the program",
                "the GPU part that --device cuda opens"},
    EnvVariable{"COLIBRI_ISA", "portable, avx2, avx512", "the best of this processor",
                "instruction set of the CPU kernels; same results, other speed"},
    EnvVariable{"COLIBRI_RANKS_SOCKET", "a path", "no launcher",
                "where the launcher of --ranks listens for its ranks", true},
    // tests/simulated_device/README.md tells what they may hold.
    EnvVariable{"COLIBRI_SIM_CAPABILITY", "major.minor", "9.0",
                "simulated device: compute capability", true},
    EnvVariable{"COLIBRI_SIM_COUNTERS", "0, 1", "1", "simulated device: 0: count nothing", true},
    EnvVariable{"COLIBRI_SIM_DEVICES", "0 to 64", "1", "simulated device: how many there are",
                true},
    EnvVariable{"COLIBRI_SIM_MEMORY", "bytes", "8 GiB",
                "simulated device: bytes of each, or with commas of one after the other", true},
    EnvVariable{"COLIBRI_SIM_NCCL", "0, 1", "1", "simulated device: 0: no NCCL is found", true},
    EnvVariable{"COLIBRI_SIM_NCCL_FAULT", "rank=R,op=N,kind=K", "none",
                "simulated device: an injected fault of its NCCL", true},
    EnvVariable{"COLIBRI_SIM_PEERS", "0, 1", "1", "simulated device: 0: no peer access", true},
    EnvVariable{"COLIBRI_SIM_PROTECT", "0, 1", "1",
                "simulated device: 0: its memory stays open to the host", true},
    EnvVariable{"COLIBRI_SIM_RACES", "0, 1", "1", "simulated device: 0: no search for races", true},
    EnvVariable{"COLIBRI_SIM_SEED", "a number", "1",
                "simulated device: order of threads and streams", true},
    EnvVariable{"COLIBRI_SIM_STREAMS", "late, at-once, mixed", "late",
                "simulated device: late, at-once or mixed", true},
    EnvVariable{"COLIBRI_SIM_UUIDS", "labels, by comma", "of machine and number",
                "simulated device: labels of the devices", true},
    EnvVariable{"COLIBRI_TEST_FULL", "1", "short tests", "tests also run what takes minutes"},
};

const EnvVariable* find(std::string_view name) {
  const auto found = std::find_if(kVariables.begin(), kVariables.end(),
                                  [&](const EnvVariable& known) { return known.name == name; });
  return found == kVariables.end() ? nullptr : &*found;
}

}  // namespace

std::span<const EnvVariable> env_variables() { return kVariables; }

std::optional<std::string> read_env(std::string_view name) {
  check(find(name) != nullptr, "environment variable ", name, " is not in base/env.cc");
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string env_name_of_flag(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  std::string name(kPrefix);
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::vector<std::string> unknown_env_variables(std::span<const std::string> environment,
                                               std::span<const std::string> flags) {
  std::vector<std::string> unknown;
  for (const std::string& entry : environment) {
    const std::string name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || find(name) != nullptr) continue;
    const bool is_flag = std::any_of(flags.begin(), flags.end(), [&](const std::string& flag) {
      return env_name_of_flag(flag) == name;
    });
    if (!is_flag) unknown.push_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

std::vector<std::string> current_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

}  // namespace colibri
