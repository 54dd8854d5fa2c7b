#include "launch/bench.h"

#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "kernels/probe.h"
#include "launch/bench_gpu.h"
#include "launch/bench_predict.h"
#include "launch/bench_report.h"
#include "launch/bench_run.h"
#include "launch/model_session.h"
#include "launch/perplexity.h"
#include "launch/process_clock.h"
#include "launch/scoring.h"
#include "launch/session_setup.h"
#include "launch/standard_out.h"
#include "topology/machine.h"

namespace colibri {
namespace {

constexpr int64_t kProbeBytes = 512 << 20;

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// "zipf:1.2" -> 1.2; "uniform" -> 0; nothing for other words.
std::optional<double> skew_of(const std::string& routing) {
  if (routing == "uniform") return 0;
  if (routing.rfind("zipf:", 0) != 0) return std::nullopt;
  double skew = 0;
  const char* const end = routing.data() + routing.size();
  const auto [stop, error] = std::from_chars(routing.data() + 5, end, skew);
  if (error != std::errc() || stop != end || !(skew > 0 && skew <= 20)) {
    fail(ErrorKind::kInput, "--routing is '", routing, "', want zipf:S with S above 0, at most 20");
  }
  return skew;
}

std::unique_ptr<RouteOverride> make_routing(const std::string& routing, const ModelConfig& config) {
  constexpr uint64_t kSeed = 1;
  if (routing == "model") return nullptr;
  if (const auto skew = skew_of(routing)) return make_random_routing(config, *skew, kSeed);
  return make_recorded_routing(config, routing);
}

// The machine's limits, taken between repetitions.
class Limits {
 public:
  Limits(ThreadPool& pool, Isa isa) : memory_(kProbeBytes) {
    auto* values = memory_.as<uint64_t>();
    for (size_t i = 0; i < memory_.size_bytes() / sizeof(uint64_t); ++i) values[i] = i;
    read_ = read_probe(pool, memory_.data(), kProbeBytes);
    f32_ = f32_probe(pool, isa);
    int8_ = int8_probe(pool, isa);
  }

  void measure() {
    measured_.read_gbps.push_back(rate_of(read_) / 1e9);
    measured_.f32_gflops.push_back(rate_of(f32_) / 1e9);
    measured_.int8_gops.push_back(rate_of(int8_) / 1e9);
  }
  const BenchLimits& measured() const { return measured_; }

 private:
  Buffer memory_;
  Probe read_, f32_, int8_;
  BenchLimits measured_;
};

// How rows travel: what --transport auto became.
std::string transport_name(const RankContext& context) {
  if (context.device.over_nccl) return "nccl";
  return context.transport == nullptr ? "none" : context.transport->name();
}

BenchFacts facts_of(const RunConfig& config, const RankContext& context,
                    const ModelSession& session) {
  const CommonOptions& o = config.common;
  const ModelConfig& model = session.checkpoint().config();
  BenchFacts facts;
  facts.model = o.shape.empty() ? o.model : "shape " + o.shape;
  facts.family = model.family;
  facts.weights = session.weights_text();
  facts.has_quantised_experts = session.row_dtype() == DType::kI8;
  facts.is_on_gpu = context.device.is_cuda();
  facts.routing = config.bench.routing;
  facts.placement = o.placement;
  facts.backend = session.ops().name();
  facts.transport = transport_name(context);
  facts.num_layers = model.num_layers;
  facts.num_ranks = context.size;
  facts.threads_per_rank = pool_options(o, context).num_threads;
  facts.version = kVersion;
  facts.date = today();
  facts.command = config.command;
  facts.cpu = cpu_model();
  facts.machine = machine_text(probe_machine());
  return facts;
}

std::string formatted(const std::string& format, const BenchReport& report) {
  if (format == "json") return report_json(report);
  return format == "csv" ? report_csv(report) : report_markdown(report);
}

// A GPU that the model fills has no room for them.
std::unique_ptr<GpuProbes> make_gpu_probes(const RankContext& context, ModelSession& session) {
  try {
    return std::make_unique<GpuProbes>(session.device(), context.device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kEnvironment) throw;
    context.log->warn("the GPU's limits are not measured: {}", error.what());
    return nullptr;
  }
}

int measure(const RunConfig& config, const RankContext& context, ModelSession& session,
            Serving& serving, ProfiledOps* profiled) {
  std::optional<Limits> limits;
  std::unique_ptr<GpuProbes> gpu_limits;
  if (config.bench.probes && context.device.is_cuda()) {
    gpu_limits = make_gpu_probes(context, session);
  } else if (config.bench.probes) {
    limits.emplace(session.pool(), parse_isa(config.common.isa));
  }
  BenchReport report;
  report.results = run_bench(bench_cases(config.bench), config.bench.repetitions,
                             {.session = &session,
                              .serving = &serving,
                              .between =
                                  [&] {
                                    if (limits) limits->measure();
                                    if (gpu_limits) gpu_limits->measure();
                                  },
                              .profiled = profiled,
                              .trace_directory = config.bench.trace});
  if (!config.bench.predict.empty()) add_predictions(config, session, report.results);
  if (limits) report.limits = limits->measured();
  if (gpu_limits) report.limits.gpu = gpu_limits->measured();
  report.facts = facts_of(config, context, session);
  write_out(formatted(config.bench.format, report));
  return 0;
}

SessionNeeds checked_needs(const std::vector<BenchCase>& cases, const CommonOptions& options,
                           const Checkpoint& checkpoint) {
  const SessionNeeds needs = bench_needs(cases);
  const int64_t limit = context_limit(options, checkpoint.config());
  if (needs.max_context <= limit) return needs;
  fail(ErrorKind::kInput, "the longest test takes ", needs.max_context, " positions, want at most ",
       limit, "; make --prompt-tokens and --new-tokens smaller");
}

// Before anything is loaded, so that a wrong place costs no run.
void make_trace_directory(const std::string& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::create_directories(path, error) || !error) return;
  fail(ErrorKind::kEnvironment, "--trace: cannot make the directory '", path,
       "': ", error.message());
}

int bench_perplexity(const RunConfig& config, RankContext& context) {
  PerplexityText text;
  const auto prepare = [&](const Checkpoint& checkpoint) {
    text = read_perplexity_text(config.bench.perplexity, config.common, checkpoint);
    return SessionNeeds{.max_context = text.window, .scores_prompts = true};
  };
  return run_session(
      config.common, context, prepare, {}, [&](ModelSession& session, Serving& serving) {
        Scorer scorer(serving.forward, serving.cache,
                      scorer_options(config.common, session.checkpoint().config(), text.window));
        const Perplexity measured = measure_perplexity(scorer, text);
        write_out(
            perplexity_text(config.bench.format, measured, facts_of(config, context, session)));
        return 0;
      });
}

}  // namespace

int bench(const RunConfig& config, RankContext& context) {
  if (!config.bench.perplexity.empty()) return bench_perplexity(config, context);
  const std::vector<BenchCase> cases = bench_cases(config.bench);
  if (cases.empty()) {
    fail(ErrorKind::kInput, "nothing to measure; want --prompt-tokens or --new-tokens above 0");
  }
  SessionHooks hooks;
  hooks.make_routing = [&](const ModelConfig& model) {
    return make_routing(config.bench.routing, model);
  };
  ProfiledOps* profiled = nullptr;  // the last one made, which lives as long as the session
  if (context.is_root() && context.device.is_cuda()) {
    hooks.wrap_ops = [&](std::unique_ptr<Ops> ops, Device& device) {
      const size_t filler = gpu_probe_sizes(*context.device.backend).filler_bytes;
      auto made = std::make_unique<ProfiledOps>(std::move(ops), device, filler);
      profiled = made.get();
      return made;
    };
  }
  CommonOptions options = config.common;
  for (const BenchCase& what : cases) options.max_batch = std::max(options.max_batch, what.batch);
  return run_session(
      options, context,
      [&](const Checkpoint& checkpoint) {
        make_trace_directory(config.bench.trace);
        return checked_needs(cases, options, checkpoint);
      },
      hooks,
      [&](ModelSession& session, Serving& serving) {
        return measure(config, context, session, serving, profiled);
      });
}

}  // namespace colibri
