#include "coordinator/serving_state.h"

#include <nlohmann/json.hpp>

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;

Json latency(const Percentiles& of) {
  return {{"count", of.count}, {"p50_s", of.p50}, {"p99_s", of.p99}};
}

Json kv_cache(const EngineState& state) {
  const int64_t used = state.num_pages - state.num_idle_pages;
  const double pages = static_cast<double>(state.num_pages > 0 ? state.num_pages : 1);
  return {{"pages", state.num_pages},
          {"used_pages", used},
          {"usage", static_cast<double>(used) / pages}};
}

Json ranks(const ServingState& state) {
  Json list = Json::array();
  for (size_t rank = 0; rank < state.ranks.size(); ++rank) {
    const RankFacts& facts = state.ranks[rank];
    const bool is_counted = rank < state.engine.num_ranks();
    Json one = {{"rank", rank}, {"state", facts.is_lost ? "lost" : "alive"}};
    if (!facts.host.empty()) one["host"] = facts.host;
    one["tokens"] = is_counted ? state.engine.rank_pairs(rank) : 0;
    one["resident_bytes"] = facts.resident_bytes;
    one["wait_share"] = is_counted ? state.engine.wait_share[rank] : 0.0;
    list.push_back(std::move(one));
  }
  return list;
}

// null for a layer without experts, and before any token.
Json balancedness(const EngineReading& engine) {
  Json list = Json::array();
  for (const double layer : engine.balancedness) {
    list.push_back(layer < 0 ? Json(nullptr) : Json(layer));
  }
  return list;
}

Json experts(const EngineReading& engine) {
  Json layers = Json::array();
  const auto each = static_cast<std::ptrdiff_t>(engine.num_experts);
  const auto& tokens = engine.expert_tokens;
  for (auto at = tokens.begin(); at != tokens.end(); at += each) {
    layers.push_back(Json(std::vector<uint64_t>(at, at + each)));
  }
  return layers;
}

}  // namespace

std::string state_body(const ServingState& state, bool shows_experts) {
  const EngineReading& engine = state.engine;
  Json body = {{"model", state.model},
               {"version", state.version},
               {"chat_template", state.has_chat_template},
               {"uptime_s", state.uptime_s},
               {"steps", engine.totals.num_steps},
               {"last_step_age_s", state.last_step_age_s},
               {"running", engine.state.num_running},
               {"waiting", engine.state.num_waiting + state.num_queued},
               {"prompt_tokens_per_s", engine.prompt_tokens_per_s},
               {"generation_tokens_per_s", engine.new_tokens_per_s},
               {"time_to_first_token", latency(state.first_token_s)},
               {"inter_token_latency", latency(state.between_tokens_s)},
               {"kv_cache", kv_cache(engine.state)},
               {"prefix_cache",
                {{"queried_tokens", engine.state.prefixes.num_queried_tokens},
                 {"hit_tokens", engine.state.prefixes.num_hit_tokens}}},
               {"ranks", ranks(state)},
               {"balancedness", balancedness(engine)}};
  if (shows_experts) body["experts"] = experts(engine);
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace colibri
