// The command line: reads it, starts ranks if asked to, runs the verb, prints one error in words.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/error.h"
#include "launch/bench.h"
#include "launch/calibrate.h"
#include "launch/chat.h"
#include "launch/convert.h"
#include "launch/doctor.h"
#include "launch/doctor_exchange.h"
#include "launch/generate.h"
#include "launch/inspect.h"
#include "launch/inspect_loads.h"
#include "launch/inspect_routes.h"
#include "launch/plan.h"
#include "launch/rank_context.h"
#include "launch/rank_link.h"
#include "launch/ranks.h"
#include "launch/run_config.h"
#include "launch/scaling_points.h"
#include "launch/score.h"
#include "launch/serve.h"
#include "launch/serving_bench.h"
#include "launch/show_machine.h"
#include "launch/simulate.h"
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

// What reads files alone, or talks to a server, asks for no ranks.
bool has_ranks(const RunConfig& config) {
  return config.verb != Verb::kInspect && config.verb != Verb::kConvert &&
         config.verb != Verb::kPlan && config.verb != Verb::kSimulate &&
         config.serving_bench.url.empty();
}

using OnCode = std::function<void(int)>;

// `--ranks` is no number of ranks to start here.
int show(const RunConfig& config, const OnCode& on_code) {
  if (!find_rank([](const char* name) { return std::getenv(name); }).is_alone()) {
    RunConfig on_cpu = config;  // nothing is computed
    on_cpu.common.device = "cpu";
    return run_ranks(
        on_cpu, [&](RankContext& context) { return show_machine(config, context); }, on_code);
  }
  RankContext alone;
  return show_machine(config, alone);
}

int run_verb(const RunConfig& config, const OnCode& on_code) {
  switch (config.verb) {
    case Verb::kInspect:
      if (!config.inspect.loads.empty()) return inspect_loads(config.inspect);
      return config.inspect.routes.empty() ? inspect(config) : inspect_routes(config.inspect);
    case Verb::kDoctor:
      return run_ranks(
          config, [&](RankContext& context) { return ping_ranks(config, context); }, on_code);
    case Verb::kGenerate:
      return run_ranks(
          config, [&](RankContext& context) { return generate(config, context); }, on_code);
    case Verb::kChat:
      return run_ranks(
          config, [&](RankContext& context) { return chat(config, context); }, on_code);
    case Verb::kServe:
      return run_ranks(
          config, [&](RankContext& context) { return serve(config, context); }, on_code);
    case Verb::kScore:
      return run_ranks(
          config, [&](RankContext& context) { return score(config, context); }, on_code);
    case Verb::kBench:
      if (!config.serving_bench.url.empty()) return serving_bench(config);
      if (!config.bench.calibrate.empty()) {
        return run_ranks(
            config, [&](RankContext& context) { return calibrate(config, context); }, on_code);
      }
      return run_ranks(
          config, [&](RankContext& context) { return bench(config, context); }, on_code);
    case Verb::kConvert:
      return convert(config.convert);
    case Verb::kPlan:
      return config.plan.show ? show(config, on_code) : plan(config);
    case Verb::kSimulate:
      return config.simulate.points.empty() ? simulate(config) : compare_points(config.simulate);
  }
  fail(ErrorKind::kInternal, "Verb value ", static_cast<int>(config.verb));
}

// The checks of this process, then the ping between ranks that it starts.
int doctor(RunConfig config, char* program) {
  print_checks();
  config.common.ranks = std::max(config.common.ranks, 2);
  if (config.common.transport == "local") return run_verb(config, [](int) {});
  std::string ranks = std::to_string(config.common.ranks);
  const bool tries_gpus = gpus_can_exchange(
      []() -> const CudaBackend& { return open_cuda_backend(); }, config.common.ranks);
  std::string device = tries_gpus ? "cuda" : config.common.device;
  std::string words[] = {"doctor", "--ping-only", "--ranks", "--device"};
  char* arguments[] = {program,      words[0].data(), words[1].data(), words[2].data(),
                       ranks.data(), words[3].data(), device.data(),   nullptr};
  return run_under_mpirun(7, arguments, config.common.ranks);
}

int run(int argc, char** argv, const OnCode& on_code) {
  const ParsedCommandLine parsed = parse_command_line(argc, argv);
  if (parsed.wants_text) {
    if (who_am_i().rank == 0) std::fputs(parsed.text.c_str(), stdout);
    return 0;
  }
  for (const std::string& name : parsed.unknown_variables) {
    if (who_am_i().started_by_launcher()) break;
    std::fprintf(stderr, "colibri: warning: the variable %s means nothing to colibri\n",
                 name.c_str());
  }
  const CommonOptions& common = parsed.config.common;
  if (parsed.config.verb == Verb::kDoctor && !parsed.config.doctor.ping_only) {
    return doctor(parsed.config, argv[0]);
  }
  if (has_ranks(parsed.config) && is_launcher(common)) {
    const LaunchOptions options{.passes_interrupts = parsed.config.verb == Verb::kChat};
    return run_under_mpirun(argc, argv, common.ranks, options);
  }
  return run_verb(parsed.config, on_code);
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
      code = run(argc, argv, [&link](int result) { link.write_status(result); });
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
