// How a server stands, for its page: GET /state. docs/serving.md has the same in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/engine_meter.h"
#include "coordinator/recent_values.h"

namespace colibri {

struct RankFacts {
  std::string host = {};  // "": not known
  bool is_lost = false;
  int64_t resident_bytes = 0;  // of weights
};

struct ServingState {
  std::string model, version;
  bool has_chat_template = false;
  double uptime_s = 0, last_step_age_s = 0;
  int num_queued = 0;  // answers that the engine does not know yet
  EngineReading engine;
  Percentiles first_token_s, between_tokens_s;
  std::vector<RankFacts> ranks;  // [R]
};

// JSON. `shows_experts`: with the tokens of each layer and expert.
std::string state_body(const ServingState& state, bool shows_experts);

}  // namespace colibri
