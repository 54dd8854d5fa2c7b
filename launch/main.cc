// The command line: reads it, starts ranks if asked to, runs the verb, prints one error in words.

#include <cstdio>
#include <exception>
#include <string>

#include "base/error.h"
#include "launch/doctor.h"
#include "launch/generate.h"
#include "launch/inspect.h"
#include "launch/rank_context.h"
#include "launch/ranks.h"
#include "launch/run_config.h"
#include "transport/rendezvous.h"

namespace colibri {
namespace {

bool speaks() {
  try {
    return find_rank([](const char* name) { return std::getenv(name); }).rank == 0;
  } catch (const Error&) {
    return true;
  }
}

int report(ErrorKind kind, const std::string& message) {
  if (speaks()) std::fprintf(stderr, "colibri: %s\n", message.c_str());
  return exit_code(kind);
}

// --ranks N on a process that nobody started as a rank: start them all and wait.
bool is_launcher(const CommonOptions& options) {
  const bool started =
      find_rank([](const char* name) { return std::getenv(name); }).started_by_launcher();
  return options.ranks > 1 && options.transport != "local" && !started;
}

int run_verb(const RunConfig& config) {
  switch (config.verb) {
    case Verb::kInspect:
      return inspect(config);
    case Verb::kDoctor:
      return doctor(config);
    case Verb::kGenerate:
      return run_ranks(config, [&](RankContext& context) { return generate(config, context); });
  }
  fail(ErrorKind::kInternal, "Verb value ", static_cast<int>(config.verb));
}

int run(int argc, char** argv) {
  const ParsedCommandLine parsed = parse_command_line(argc, argv);
  if (parsed.wants_text) {
    if (speaks()) std::fputs(parsed.text.c_str(), stdout);
    return 0;
  }
  const CommonOptions& common = parsed.config.common;
  if (parsed.config.verb == Verb::kGenerate && is_launcher(common)) {
    return run_under_mpirun(argc, argv, common.ranks);
  }
  return run_verb(parsed.config);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    return report(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ErrorKind::kEnvironment, "out of memory");
  } catch (const std::exception& error) {
    return report(ErrorKind::kInternal, std::string("a bug of ours: ") + error.what());
  }
}
