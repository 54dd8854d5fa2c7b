// bench --predict: what the simulator says of each test, beside what was measured.
#pragma once

#include <string>
#include <vector>

#include "launch/bench_run.h"
#include "launch/model_session.h"
#include "launch/run_config.h"
#include "topology/step_work.h"

namespace colibri {

// Sets `predicted` of every result: the mean step of the test on the machine `config` names,
// for the session's sizes and placement. Choices of experts: as --routing says where it is uniform
// or zipf, else as the session's routers chose in that test; as many experts are touched as were in
// it. Errors: as machine_named, and kInput for a machine without room for the ranks.
void add_predictions(const RunConfig& config, const ModelSession& session,
                     std::vector<BenchResult>& results);

// Steps of a prefill test: prompts one after the other, cut at the chunk.
std::vector<StepSize> prefill_steps(int64_t prompt_tokens, int batch, int64_t chunk);

}  // namespace colibri
