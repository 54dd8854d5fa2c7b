#include "launch/serving_stats.h"

#include <algorithm>
#include <cmath>

namespace colibri {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (place - static_cast<double>(low));
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  if (values.empty()) return spread;
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  spread.count = values.size();
  spread.mean = sum / count;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / count);
  spread.median = quantile(values, 0.5);
  spread.p99 = quantile(values, 0.99);
  return spread;
}

ServingFigures figures_of(const std::vector<ServedRequest>& requests, double duration_s) {
  ServingFigures figures;
  figures.duration_s = duration_s;
  std::vector<double> ttft, tpot, itl, e2e;
  for (const ServedRequest& request : requests) {
    if (!request.error.empty()) {
      ++figures.num_failed;
      ++figures.errors[request.error];
      continue;
    }
    ++figures.num_served;
    if (!request.has_usage) ++figures.num_without_usage;
    figures.prompt_tokens += request.prompt_tokens;
    figures.new_tokens += request.new_tokens;
    e2e.push_back(1e3 * request.last_s);
    for (const double gap : request.gaps_s) itl.push_back(1e3 * gap);
    if (!request.first_s) continue;
    ttft.push_back(1e3 * *request.first_s);
    if (request.new_tokens < 2) continue;
    tpot.push_back(1e3 * (request.last_s - *request.first_s) /
                   static_cast<double>(request.new_tokens - 1));
  }
  const auto per_s = [&](int64_t count) {
    return duration_s > 0 ? static_cast<double>(count) / duration_s : 0;
  };
  figures.requests_per_s = per_s(figures.num_served);
  figures.new_tokens_per_s = per_s(figures.new_tokens);
  figures.tokens_per_s = per_s(figures.new_tokens + figures.prompt_tokens);
  figures.ttft_ms = spread_of(ttft);
  figures.tpot_ms = spread_of(tpot);
  figures.itl_ms = spread_of(itl);
  figures.e2e_ms = spread_of(e2e);
  return figures;
}

}  // namespace colibri
