// What the command line asks for. Precedence: flag, COLIBRI_* variable, default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace colibri {

inline constexpr const char* kVersion = "0.1.0";

// Options that every verb with a model shares.
struct CommonOptions {
  std::string model;
  std::string weights = "auto";
  std::string dense_weights = "auto";
  std::string device = "cpu";
  std::string transport = "auto";
  int ranks = 0;    // 0: not given
  int threads = 0;  // 0: all cores of this rank's share
  std::string placement = "contiguous";
  int coordinator_experts = 0;
  std::string combine = "exact";
  int64_t chunk = 512;
  std::string kv_dtype = "auto";
  int64_t max_context = 0;  // 0: what the requests need
  int max_batch = 0;        // 0: as many as there are prompts, at most 16
  std::string log_level = "warn";
  int step_timeout_s = 30;
  int start_timeout_s = 120;
  std::string bind =
      "own";  // own: cores from the cgroup and the local rank; inherit: the mask as it came
  std::string isa = "auto";
  bool self_exchange = false;
};

struct GenerateOptions {
  std::string prompt, prompt_file, prompt_ids, prompts_file;
  bool has_prompt = false;
  int64_t max_tokens = 128;
  bool greedy = false;
  // Not given: generation_config.json's. Temperature 0 is greedy.
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool print_ids = false, print_json = false;
  std::string logits_out;
  bool score_prompt = false;
};

struct InspectOptions {
  int for_ranks = 0;  // 0: no placement shown
};

struct DoctorOptions {
  bool ping_only = false;  // what the two ranks that doctor starts run
};

enum class Verb { kGenerate, kInspect, kDoctor };

struct RunConfig {
  Verb verb = Verb::kGenerate;
  CommonOptions common;
  GenerateOptions generate;
  InspectOptions inspect;
  DoctorOptions doctor;
};

// Result of reading the command line: a configuration, or text to print and leave with (help,
// version).
struct ParsedCommandLine {
  RunConfig config;
  bool wants_text = false;
  std::string text;
  std::vector<std::string>
      unknown_variables;  // COLIBRI_* names in the environment that mean nothing
};

// Underscores in option names are read as hyphens. Errors: kInput with what came and what was
// wanted; kUnsupported for valid values this build lacks (--device cuda, --combine reduced, verbs
// to come).
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace colibri
