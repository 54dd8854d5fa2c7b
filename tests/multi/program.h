// The built program and its demo model, as the multi tests call them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/multi/command.h"

namespace colibri {

inline const std::string kProgram = COLIBRI_BINARY_DIR "/colibri";
inline const std::string kDemo = COLIBRI_SOURCE_DIR "/configs/models/demo";

using Words = std::vector<std::string>;

inline Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// `colibri generate` on the demo model with these further words.
inline Words generate_demo(const Words& more) {
  return joined({kProgram, "generate", "--model", kDemo}, more);
}

// Under bare mpirun, as the documents say.
inline Words under_mpirun(int num_ranks, const Words& command) {
  return joined({"mpirun", "-n", std::to_string(num_ranks), "--oversubscribe", "--bind-to", "none"},
                command);
}
inline const Words kMpiAsRoot = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};

// The 64 greedy ids of transformers for "ROMEO:", as `--ids` prints them.
inline std::string romeo_line() {
  std::ifstream file(COLIBRI_SOURCE_DIR "/tests/data/models/demo.expected.json");
  const auto expected = nlohmann::json::parse(file);
  std::string line;
  for (const auto& id : expected.at("prompts").at(0).at("greedy_ids")) {
    line += (line.empty() ? "" : ",") + id.dump();
  }
  return line + "\n";
}

}  // namespace colibri
