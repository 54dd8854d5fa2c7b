// The built program on simulated GPUs, one process each, as the multi tests of CUDA call it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "tests/multi/program.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {

inline const std::string kFixtures = COLIBRI_SOURCE_DIR "/tests/data/models/";

inline bool is_full_run() { return std::getenv("FULL_TESTS") != nullptr; }

// How a run on GPUs is spread.
struct Spread {
  int ranks = 1;
  std::string transport = "nccl";
  Words more = {};         // further options
  Words environment = {};  // NAME=value
};

// Options of the mode that has the CPU's bits.
inline const Words kOracleMode = {"--activations", "f32", "--kv-dtype", "f32"};

inline Words on_gpus(const Spread& spread) {
  return joined({"--device", "cuda", "--ranks", std::to_string(spread.ranks), "--transport",
                 spread.transport},
                spread.more);
}

// Eight GPUs, unless `more` says otherwise: the last of a name counts. Nobody reads counters here.
inline Words gpu_environment(const Words& more) {
  return joined({"COLIBRI_SIM_DEVICES=8", "COLIBRI_SIM_COUNTERS=0"}, more);
}

inline std::string comma_list(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

// What transformers says of a fixture: its prompt and the greedy ids that follow.
struct Expectation {
  std::vector<int32_t> prompt, greedy;
};

inline Expectation expectation_of(const std::string& fixture) {
  const auto json = nlohmann::json::parse(read_file(kFixtures + fixture + "/expected.json"));
  return {json.at("prompt_ids"), json.at("greedy_ids")};
}

}  // namespace colibri
