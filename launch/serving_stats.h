// What requests of a load run met, and the figures over all of them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colibri {

// One request, seen from the client. Seconds count from the moment it was sent.
struct ServedRequest {
  std::string error;  // empty: answered whole
  int64_t prompt_tokens = 0, new_tokens = 0;
  bool has_usage = false;         // the server told both; else what came in pieces was counted
  std::optional<double> first_s;  // to the first text; nothing: there was none
  double last_s = 0;              // to the last text, or to the reason of its end
  std::vector<double> gaps_s;     // between pieces of text
};

// The q-th quantile, q in [0, 1], linear between the two nearest of the sorted values, as numpy's
// percentile. 0 for none.
double quantile(std::vector<double> values, double q);

struct Spread {
  size_t count = 0;
  double mean = 0, median = 0, deviation = 0,
         p99 = 0;  // 0 for none; deviation over all, as numpy's
};
Spread spread_of(const std::vector<double>& values);

struct ServingFigures {
  int64_t num_served = 0, num_failed = 0, num_without_usage = 0;
  double duration_s = 0;
  int64_t prompt_tokens = 0, new_tokens = 0;  // of those that were served
  double requests_per_s = 0, new_tokens_per_s = 0, tokens_per_s = 0;
  Spread ttft_ms, tpot_ms, itl_ms, e2e_ms;  // of those that were served
  std::map<std::string, int64_t> errors;    // reason -> requests
};

// Time per output token is (last - first) / (new tokens - 1) of each request with two or more.
ServingFigures figures_of(const std::vector<ServedRequest>& requests, double duration_s);

}  // namespace colibri
