// The command line: reads it, starts ranks if asked to, runs the verb, prints one error in words.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "launch/generate.h"
#include "launch/inspect.h"
#include "launch/rank_context.h"
#include "launch/rank_link.h"
#include "launch/ranks.h"
#include "launch/run_config.h"
#include "transport/rendezvous.h"

namespace colibri {
namespace {

RankInfo who_am_i() {
  return find_rank([](const char* name) { return std::getenv(name); });
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
      fail(ErrorKind::kUnsupported, "doctor is not built yet");
    case Verb::kGenerate:
      return run_ranks(config, [&](RankContext& context) { return generate(config, context); });
  }
  fail(ErrorKind::kInternal, "Verb value ", static_cast<int>(config.verb));
}

int run(int argc, char** argv) {
  const ParsedCommandLine parsed = parse_command_line(argc, argv);
  if (parsed.wants_text) {
    if (who_am_i().rank == 0) std::fputs(parsed.text.c_str(), stdout);
    return 0;
  }
  const CommonOptions& common = parsed.config.common;
  if (parsed.config.verb == Verb::kGenerate && is_launcher(common)) {
    return run_under_mpirun(argc, argv, common.ranks);
  }
  return run_verb(parsed.config);
}

// For errors of the command line, which every rank meets alike.
int rank_if_known() {
  try {
    return who_am_i().rank;
  } catch (const Error&) {
    return 0;  // the launcher's variables are what is wrong: any rank may say so
  }
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  int code = 0;
  try {
    RankLink link = RankLink::join(argc, argv);
    try {
      code = run(argc, argv);
    } catch (...) {
      code = report_exception_alike(rank_if_known());
    }
    link.write_status(code);
  } catch (...) {
    code = report_exception(0);
  }
  std::fflush(nullptr);
  // Ranks leave without the exit handlers of libraries: MPI's would wait for a rank that is lost.
  _exit(code);
}
