#include "launch/run_config.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/env.h"
#include "base/error.h"
#include "launch/config_checks.h"
#include "launch/config_file.h"
#include "launch/verb_options.h"
#include "launch/verb_settings.h"

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

Verb verb_named(const std::string& name) {
  if (name == "chat") return Verb::kChat;
  if (name == "serve") return Verb::kServe;
  if (name == "score") return Verb::kScore;
  if (name == "bench") return Verb::kBench;
  if (name == "convert") return Verb::kConvert;
  if (name == "inspect") return Verb::kInspect;
  if (name == "plan") return Verb::kPlan;
  if (name == "simulate") return Verb::kSimulate;
  if (name == "doctor") return Verb::kDoctor;
  return Verb::kGenerate;
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(with_hyphens(argv[i]));
  ParsedCommandLine parsed;
  RunConfig& config = parsed.config;
  CLI::App app{"Serves mixture-of-experts language models by expert parallelism.", "colibri"};
  const std::string version = std::string("colibri ") + kVersion;
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  VerbConfigs configs;
  add_verbs(app, configs);
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
  CLI::App& verb = *app.get_subcommands().front();
  config = configs.at(verb.get_name());
  if (!config.config_file.empty()) {
    apply_settings(app, verb, read_config_file(config.config_file), config.config_file);
    config = configs.at(verb.get_name());
  }
  config.verb = verb_named(verb.get_name());
  for (int i = 0; i < argc; ++i) config.command += (i == 0 ? "" : " ") + std::string(argv[i]);
  config.generate.has_prompt = app.get_subcommand("generate")->count("--prompt") > 0;
  check_config(config);
  parsed.unknown_variables = unknown_variables(app);
  if (config.print_config) {
    parsed.wants_text = true;
    parsed.text = settings_text(verb);
  }
  return parsed;
}

}  // namespace colibri
