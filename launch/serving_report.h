// What `colibri bench --serve` prints: the block of figures that serving benchmarks print, JSON,
// CSV, and a picture of latency over load. Pure.
#pragma once

#include <string>
#include <vector>

#include "launch/serving_stats.h"

namespace colibri {

// One load of a sweep and what came of it.
struct ServingRun {
  double request_rate = 0;  // a second; infinite: all at once
  int max_concurrency = 0;  // 0: no bound
  int num_prompts = 0;
  ServingFigures figures;
};

struct ServingFacts {
  std::string url, model, endpoint;  // "completions" or "chat"
  std::string prompts;               // "random token ids", "FILE"
  uint64_t seed = 0;
  std::string version, date, command;
};

// "inf" or the shortest form.
std::string rate_text(double rate);

std::string serving_block(const ServingRun& run);
// Keys as in the result files of vLLM's benchmark, one object a run; rates that are infinite are
// the text "inf".
std::string serving_json(const ServingFacts& facts, const std::vector<ServingRun>& runs);
std::string serving_csv(const std::vector<ServingRun>& runs);

// Medians and 99th percentiles of time to first token, time per output token and the whole, over
// the request rate, or over the concurrency where that is what differs. Loads stand at equal
// distances. A whole file without outside references.
std::string serving_svg(const ServingFacts& facts, const std::vector<ServingRun>& runs);

}  // namespace colibri
