#include "launch/serve.h"

#include <cstdio>
#include <filesystem>

#include "coordinator/api_service.h"
#include "coordinator/http_server.h"
#include "coordinator/scorer.h"
#include "launch/model_session.h"
#include "launch/model_text.h"
#include "launch/prompts.h"
#include "launch/rank_signals.h"
#include "launch/session_setup.h"
#include "topology/memory_plan.h"

namespace colibri {
namespace {

constexpr int64_t kDrainTimeoutMs = 5000;  // for the last bytes of answers that are made

// What requests are told of the model: its name, and what holds where they say nothing.
ApiModel api_model_of(const RunConfig& config, const Checkpoint& checkpoint,
                      const PromptSet& defaults) {
  const std::string& given = config.serve.served_model_name;
  const std::filesystem::path path =
      std::filesystem::absolute(config.common.model).lexically_normal();
  const std::string own = path.has_filename() ? path.filename() : path.parent_path().filename();
  return {.name = given.empty() ? own : given,
          .version = kVersion,
          .tokenizer = defaults.tokenizer.get(),
          .sampling = defaults.sampling,
          .eos_ids = defaults.eos_ids,
          .vocab_size = checkpoint.config().vocab_size,
          .max_context = context_limit(config.common, checkpoint.config())};
}

void show_ranks(const ModelSession& session, const std::vector<int>& lost,
                ServingMetrics& metrics) {
  std::vector<RankFacts> ranks;
  for (const RankMemory& memory : plan_memory(session.shape(), session.placement(), {})) {
    ranks.push_back({.resident_bytes = memory.expert_bytes + memory.weight_bytes});
  }
  for (const int rank : lost) {
    ranks.at(static_cast<size_t>(rank)) = {.is_lost = true, .resident_bytes = 0};
  }
  metrics.set_ranks(std::move(ranks), session.placement());
}

int answer(const RunConfig& config, ApiService& service, const Serving& serving,
           const std::string& name) {
  HttpOptions options;
  options.address = config.serve.host;
  options.port = static_cast<uint16_t>(config.serve.port);
  options.error_body = [&](int status, const std::string& reason) {
    service.metrics().answered({"none", "none", status, 0});
    return api_error_body(status, "", reason);
  };
  const auto server = make_http_server(options, [&](HttpRequest request, auto reply) {
    service.handle(std::move(request), std::move(reply));
  });
  std::fprintf(stderr, "colibri: serving %s at http://%s:%d\n", name.c_str(),
               config.serve.host.c_str(), server->port());
  service.run(serving.engine, serving.ranks, drain_requested);
  server->stop(kDrainTimeoutMs);
  return 0;
}

}  // namespace

int serve(const RunConfig& config, RankContext& context) {
  PromptSet defaults;
  ApiModel model;
  const auto prepare = [&](const Checkpoint& checkpoint) {
    defaults = read_answer_defaults({}, checkpoint);
    defaults.tokenizer = load_tokenizer(checkpoint);
    model = api_model_of(config, checkpoint, defaults);
    for (const std::string& warning : defaults.warnings) context.log->warn("{}", warning);
    return SessionNeeds{
        .max_context = model.max_context,
        .num_sequences = config.common.max_batch > 0 ? config.common.max_batch : kDefaultMaxBatch,
        .max_scored_tokens = max_scored_rows(model.vocab_size, config.common.chunk),
        .shares_prefixes = true,
        .survives_one = config.serve.survive > 0};
  };
  return run_session(
      config.common, context, prepare, {}, [&](ModelSession& session, Serving& serving) {
        const std::string name = model.name;
        ApiService service(std::move(model),
                           {.api_key = config.serve.api_key,
                            .max_waiting = config.serve.max_waiting,
                            .shows_experts = config.serve.metrics_experts,
                            .log = [&](const std::string& line) { context.log->info("{}", line); },
                            .tracer = &serving.tracer,
                            .profile_dir = config.serve.profile_dir});
        ServingMetrics& metrics = service.metrics();
        show_ranks(session, {}, metrics);
        serving.ranks.watch(
            {.on_change = [&](const auto& lost) { show_ranks(session, lost, metrics); },
             .on_recovery = [&](double seconds) { metrics.recovered(seconds); }});
        return answer(config, service, serving, name);
      });
}

}  // namespace colibri
