// The verb `bench --serve URL`: load on a server of OpenAI's API, seen from a client.
#pragma once

#include "launch/run_config.h"

namespace colibri {

// One process; opens no model and starts no ranks. Returns 0 when at least one request of each run
// was served. Errors: kInput for a dataset or an endpoint that is refused, kEnvironment when the
// server cannot be reached or serves nothing of a run (after the figures are printed).
int serving_bench(const RunConfig& config);

}  // namespace colibri
