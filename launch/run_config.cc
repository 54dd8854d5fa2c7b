#include "launch/run_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/env.h"
#include "base/error.h"

namespace colibri {
namespace {

// "--max_tokens=5" -> "--max-tokens=5"; values stay as they are.
std::string with_hyphens(const std::string& argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  std::string changed = argument;
  const size_t end = std::min(changed.find('='), changed.size());
  std::replace(changed.begin(), changed.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return changed;
}

template <class T>
CLI::Option* add(CLI::App& app, const std::string& option, T& value, const std::string& help) {
  return app.add_option(option, value, help)
      ->envname(env_name_of_flag(option))
      ->capture_default_str();
}

template <class T>
void add_optional(CLI::App& app, const std::string& option, std::optional<T>& value,
                  const std::string& help) {
  app.add_option(option, value, help)->envname(env_name_of_flag(option));
}

// CLI11 reads "-1" for an unsigned as a huge number; every count is signed here and bounded by
// name.
template <class T>
void check_range(const std::string& option, T value, T low, T high) {
  if (value >= low && value <= high) return;
  fail(ErrorKind::kInput, option, " is ", value, ", want ", low, " to ", high);
}

void check_word(const std::string& option, const std::string& value,
                const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), value) != words.end()) return;
  std::string wanted;
  for (const std::string& word : words) wanted += (wanted.empty() ? "" : ", ") + word;
  fail(ErrorKind::kInput, option, " is '", value, "', want one of ", wanted);
}

void add_model_options(CLI::App& app, CommonOptions& o) {
  add(app, "--model", o.model, "Directory of a Hugging Face checkpoint");
  add(app, "--weights", o.weights, "Experts in memory: auto (as stored), f32, bf16, q8 or q4");
  add(app, "--dense-weights", o.dense_weights,
      "Attention, dense MLPs and head: auto (wide), f32, bf16, q8 or q4");
  add(app, "--kv-dtype", o.kv_dtype, "KV cache: auto (f32 on the CPU), f32 or bf16");
  add(app, "--max-context", o.max_context, "Most tokens of one sequence (0: what is needed)");
  add(app, "--log-level", o.log_level, "trace, debug, info, warn, error or off");
}

void add_rank_options(CLI::App& app, CommonOptions& o) {
  add(app, "--ranks", o.ranks, "Start this many ranks on this machine");
  add(app, "--device", o.device, "cpu (cuda comes with a later version)");
  add(app, "--transport", o.transport, "auto, local (ranks are threads) or mpi");
  add(app, "--threads", o.threads, "Threads of each rank (0: all cores of its share)");
  add(app, "--bind", o.bind, "own: cores from the cgroup and the local rank; inherit");
  add(app, "--isa", o.isa, "auto, portable, avx2 or avx512: same bits, other speed");
  add(app, "--placement", o.placement, "contiguous, round-robin, random:SEED or a file");
  add(app, "--coordinator-experts", o.coordinator_experts, "Experts a layer that rank 0 holds");
  add(app, "--combine", o.combine, "exact (reduced comes with a later version)");
  add(app, "--chunk", o.chunk, "Most prompt tokens of one step");
  add(app, "--max-batch", o.max_batch, "Most sequences at once (0: all prompts, at most 16)");
  add(app, "--step-timeout", o.step_timeout_s, "Seconds to wait for a rank in a step");
  add(app, "--start-timeout", o.start_timeout_s, "Seconds to wait for ranks while starting");
  app.add_flag("--self-exchange", o.self_exchange, "Rank 0's own rows travel as messages (tests)");
}

void add_generate(CLI::App& app, RunConfig& config) {
  GenerateOptions& o = config.generate;
  add_model_options(app, config.common);
  add_rank_options(app, config.common);
  app.add_option("--prompt", o.prompt, "Text to go on from");
  app.add_option("--prompt-file", o.prompt_file, "File with the text to go on from");
  app.add_option("--prompt-ids", o.prompt_ids, "Token ids, as 1,2,3");
  app.add_option("--prompts", o.prompts_file, "JSON lines, each a string or {\"prompt\": ...}");
  add(app, "--max-tokens", o.max_tokens, "Most new tokens");
  app.add_flag("--greedy", o.greedy, "Always the most likely token");
  add_optional(app, "--temperature", o.temperature, "0 is greedy. Default: generation_config.json");
  add_optional(app, "--top-p", o.top_p, "Default: generation_config.json");
  add_optional(app, "--top-k", o.top_k, "Default: generation_config.json; 0 is off");
  add_optional(app, "--min-p", o.min_p, "Default: generation_config.json");
  add(app, "--seed", o.seed, "Of the random draws");
  app.add_option("--stop", o.stop, "Text that ends the answer; may be given again")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", o.ignore_eos, "Go on after the end-of-text token");
  app.add_flag("--ids", o.print_ids, "Print the new ids, one line a prompt, nothing else");
  app.add_flag("--json", o.print_json, "Print one JSON object a prompt");
  app.add_option("--logits-out", o.logits_out, "NumPy file for the first prompt's logits");
  app.add_flag("--score-prompt", o.score_prompt, "Logits of the prompt's positions too");
}

void add_inspect(CLI::App& app, RunConfig& config) {
  add_model_options(app, config.common);
  add(app, "--placement", config.common.placement, "Placement to show with --for-ranks");
  add(app, "--coordinator-experts", config.common.coordinator_experts,
      "Experts a layer that rank 0 holds");
  app.add_option("--for-ranks", config.inspect.for_ranks, "Show who would hold what on N ranks");
}

void add_doctor(CLI::App& app, RunConfig& config) {
  add(app, "--log-level", config.common.log_level, "trace, debug, info, warn, error or off");
  add(app, "--transport", config.common.transport, "auto, local or mpi");
  add(app, "--ranks", config.common.ranks, "Ranks that ping each other (2)");
  add(app, "--start-timeout", config.common.start_timeout_s, "Seconds to wait for them");
  app.add_flag("--ping-only", config.doctor.ping_only, "Only the ping between ranks");
}

void check_common(const CommonOptions& o) {
  check_word("--weights", o.weights, {"auto", "f32", "bf16", "q8", "q4"});
  check_word("--dense-weights", o.dense_weights, {"auto", "f32", "bf16", "q8", "q4"});
  check_word("--kv-dtype", o.kv_dtype, {"auto", "f32", "bf16"});
  check_word("--transport", o.transport, {"auto", "local", "mpi", "nccl"});
  check_word("--combine", o.combine, {"exact", "reduced"});
  check_word("--bind", o.bind, {"own", "inherit"});
  check_word("--isa", o.isa, {"auto", "portable", "avx2", "avx512"});
  check_range("--ranks", o.ranks, 0, 4096);
  check_range("--threads", o.threads, 0, 4096);
  check_range("--coordinator-experts", o.coordinator_experts, 0, 1 << 20);
  check_range<int64_t>("--chunk", o.chunk, 1, 1 << 20);
  check_range<int64_t>("--max-context", o.max_context, 0, int64_t{1} << 30);
  check_range("--max-batch", o.max_batch, 0, 1 << 16);
  check_range("--step-timeout", o.step_timeout_s, 1, 86400);
  check_range("--start-timeout", o.start_timeout_s, 1, 86400);
  if (o.device != "cpu") {
    const bool known = o.device == "cuda" || o.device.rfind("cuda:", 0) == 0;
    fail(known ? ErrorKind::kUnsupported : ErrorKind::kInput, "--device is '", o.device,
         known ? "': the CUDA backend is not part of this version; want cpu" : "', want cpu");
  }
  if (o.transport == "nccl") {
    fail(ErrorKind::kUnsupported,
         "--transport nccl is not part of this version; want local or mpi");
  }
  if (o.combine == "reduced") {
    fail(ErrorKind::kUnsupported, "--combine reduced is not part of this version; want exact");
  }
}

void check_generate(const GenerateOptions& o) {
  const int given = (o.has_prompt ? 1 : 0) + (o.prompt_file.empty() ? 0 : 1) +
                    (o.prompt_ids.empty() ? 0 : 1) + (o.prompts_file.empty() ? 0 : 1);
  if (given != 1) {
    fail(ErrorKind::kInput, given, " prompts given, want exactly one of --prompt, --prompt-file, ",
         "--prompt-ids and --prompts");
  }
  check_range<int64_t>("--max-tokens", o.max_tokens, o.score_prompt ? 0 : 1, int64_t{1} << 30);
  if (o.print_ids && o.print_json) fail(ErrorKind::kInput, "want --ids or --json, not both");
  if (o.score_prompt && o.logits_out.empty()) {
    fail(ErrorKind::kInput, "--score-prompt wants --logits-out FILE");
  }
}

void check_config(const RunConfig& config) {
  check_common(config.common);
  if (config.verb == Verb::kGenerate) check_generate(config.generate);
  if (config.verb != Verb::kDoctor && config.common.model.empty()) {
    fail(ErrorKind::kInput, "--model is missing, want the directory of a checkpoint");
  }
}

// A misspelt variable must not be silent.
std::vector<std::string> unknown_variables(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::App* verb : app.get_subcommands({})) {
    for (const CLI::Option* option : verb->get_options()) {
      if (!option->get_envname().empty()) flags.push_back(option->get_name());
    }
  }
  return unknown_env_variables(current_environment(), flags);
}

void refuse_verbs_to_come(const std::vector<std::string>& arguments) {
  static const std::vector<std::string> kToCome = {"chat",    "serve", "score",   "bench",
                                                   "convert", "plan",  "simulate"};
  if (arguments.empty()) return;
  if (std::find(kToCome.begin(), kToCome.end(), arguments.front()) == kToCome.end()) return;
  fail(ErrorKind::kUnsupported, "'", arguments.front(),
       "' is not part of this version; want generate, inspect or doctor");
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(with_hyphens(argv[i]));
  refuse_verbs_to_come(arguments);
  ParsedCommandLine parsed;
  RunConfig& config = parsed.config;
  CLI::App app{"Serves mixture-of-experts language models by expert parallelism.", "colibri"};
  const std::string version = std::string("colibri ") + kVersion;
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  CLI::App* generate = app.add_subcommand("generate", "Write text that goes on from a prompt");
  CLI::App* inspect = app.add_subcommand("inspect", "Show a checkpoint's shapes, experts, bytes");
  CLI::App* doctor = app.add_subcommand("doctor", "Check this machine; each line ok or the fix");
  add_generate(*generate, config);
  add_inspect(*inspect, config);
  add_doctor(*doctor, config);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the vector reversed
  try {
    app.parse(arguments);
  } catch (const CLI::Success& help) {
    parsed.wants_text = true;
    parsed.text =
        dynamic_cast<const CLI::CallForVersion*>(&help) != nullptr ? version + "\n" : app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::kInput, error.what(), "; see colibri --help");
  }
  if (*inspect) config.verb = Verb::kInspect;
  if (*doctor) config.verb = Verb::kDoctor;
  config.generate.has_prompt = generate->count("--prompt") > 0;
  check_config(config);
  parsed.unknown_variables = unknown_variables(app);
  return parsed;
}

}  // namespace colibri
