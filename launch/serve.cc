#include "launch/serve.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/units.h"
#include "coordinator/api_service.h"
#include "coordinator/http_server.h"
#include "coordinator/scorer.h"
#include "launch/auto_rebalance.h"
#include "launch/model_session.h"
#include "launch/model_text.h"
#include "launch/prompts.h"
#include "launch/rank_signals.h"
#include "launch/rebalance_option.h"
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

// Listens from the moment it is made, so that whoever asks while the model is loaded is told so.
class Server {
 public:
  Server(const RunConfig& config, ApiModel model, const RankContext& context)
      : context_(context),
        name_(model.name),
        host_(config.serve.host),
        common_(config.common),
        rebalance_steps_(rebalance_steps(config.serve.rebalance)),
        service_(std::move(model),
                 {.api_key = config.serve.api_key,
                  .max_waiting = config.serve.max_waiting,
                  .shows_experts = config.serve.metrics_experts,
                  .log = [&context](const std::string& line) { context.log->info("{}", line); },
                  .profile_dir = config.serve.profile_dir}) {
    HttpOptions options;
    options.address = host_;
    options.port = static_cast<uint16_t>(config.serve.port);
    options.error_body = [this](int status, const std::string& reason) {
      service_.metrics().answered({"none", "none", status, 0});
      return api_error_body(status, "", reason);
    };
    http_ = make_http_server(options, [this](HttpRequest request, auto reply) {
      service_.handle(std::move(request), std::move(reply));
    });
  }

  int run(const ModelSession& session, Serving& serving) {
    ServingMetrics& metrics = service_.metrics();
    show_ranks(session, {}, metrics);
    serving.ranks.watch({.on_change = [&](const auto& lost) { show_ranks(session, lost, metrics); },
                         .on_recovery = [&](double seconds) { metrics.recovered(seconds); }});
    std::optional<AutoRebalance> rebalance;
    if (rebalance_steps_ > 0 && session.placement().num_ranks() > 1) {
      rebalance.emplace(RebalanceParts{common_, context_, session, serving, metrics},
                        rebalance_steps_);
    }
    log_reload(session);
    std::fprintf(stderr, "colibri: serving %s at http://%s:%d\n", name_.c_str(), host_.c_str(),
                 http_->port());
    service_.run({.engine = serving.engine,
                  .ranks = serving.ranks,
                  .tracer = serving.tracer,
                  .after_step =
                      [&] {
                        if (rebalance) rebalance->step_done();
                      }},
                 drain_requested);
    http_->stop(kDrainTimeoutMs);
    return 0;
  }

 private:
  // What a loss would cost, from what loading has shown.
  void log_reload(const ModelSession& session) const {
    const Placement& placement = session.placement();
    if (placement.num_ranks() == 1) return;
    int64_t most = 0;
    for (int rank = 1; rank < placement.num_ranks(); ++rank) {
      most = std::max(most, placement.num_slots(rank) * session.shape().expert_bytes);
    }
    constexpr int64_t kLargeShard = 50'000'000'000;
    const double rate = session.read_bytes_per_s();
    context_.log->info(
        "weights were read at {}/s: after the loss of the largest shard the others would read its "
        "{} "
        "in {:.3f} s; one of {} would take {:.0f} s",
        format_bytes(static_cast<int64_t>(rate)), format_bytes(most),
        static_cast<double>(most) / rate, format_bytes(kLargeShard),
        static_cast<double>(kLargeShard) / rate);
  }

  const RankContext& context_;
  std::string name_, host_;
  CommonOptions common_;
  int64_t rebalance_steps_ = 0;
  ApiService service_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace

int serve(const RunConfig& config, RankContext& context) {
  PromptSet defaults;
  std::optional<Server> server;  // of rank 0
  const auto prepare = [&](const Checkpoint& checkpoint) {
    defaults = read_answer_defaults({}, checkpoint);
    defaults.tokenizer = load_tokenizer(checkpoint);
    ApiModel model = api_model_of(config, checkpoint, defaults);
    for (const std::string& warning : defaults.warnings) context.log->warn("{}", warning);
    const SessionNeeds needs{
        .max_context = model.max_context,
        .num_sequences = config.common.max_batch > 0 ? config.common.max_batch : kDefaultMaxBatch,
        .max_scored_tokens = max_scored_rows(model.vocab_size, config.common.chunk),
        .shares_prefixes = true,
        .survives_one = config.serve.survive > 0};
    server.emplace(config, std::move(model), context);
    return needs;
  };
  return run_session(
      config.common, context, prepare, {},
      [&](ModelSession& session, Serving& serving) { return server->run(session, serving); });
}

}  // namespace colibri
