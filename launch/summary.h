// What a run did, for people, on stderr: speed, who held what, what travelled, who was waited for.
#pragma once

#include <cstdint>
#include <string>

#include "base/model_shape.h"
#include "coordinator/engine.h"
#include "topology/placement.h"
#include "transport/expert_exchange.h"

namespace colibri {

struct SummaryInput {
  const EngineTotals* engine = nullptr;
  const ExchangeTotals* exchange = nullptr;
  FixedStepTotals fixed = {};
  const Placement* placement = nullptr;
  const ModelShape* shape = nullptr;
  double first_token_s = 0;  // from the start of the first step
  double elapsed_s = 0;      // of all steps
  double load_s = 0;         // from the start of the process
  std::string backend;       // "cpu/avx512"
};

// Several lines, each ended.
std::string summary_text(const SummaryInput& input);

}  // namespace colibri
