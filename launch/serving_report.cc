#include "launch/serving_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWidth = 50;

std::string rule(const std::string& title, char sign) {
  const std::string text = title.empty() ? "" : sign == '=' ? " " + title + " " : title;
  const size_t left = (kWidth - text.size()) / 2;
  return std::string(left, sign) + text + std::string(kWidth - text.size() - left, sign) + "\n";
}

std::string line(const std::string& name, const std::string& value) {
  return fmt::format("{:<40} {:<10}\n", name, value);
}

std::string spread_lines(const std::string& title, const std::string& name, const Spread& spread) {
  const auto shown = [&](double ms) { return spread.count > 0 ? fmt::format("{:.2f}", ms) : "-"; };
  return rule(title, '-') + line("Mean " + name + " (ms):", shown(spread.mean)) +
         line("Median " + name + " (ms):", shown(spread.median)) +
         line("P99 " + name + " (ms):", shown(spread.p99));
}

void add_spread(Json& json, const std::string& name, const Spread& spread) {
  const auto value = [&](double ms) { return spread.count > 0 ? Json(ms) : Json(); };
  json["mean_" + name + "_ms"] = value(spread.mean);
  json["median_" + name + "_ms"] = value(spread.median);
  json["std_" + name + "_ms"] = value(spread.deviation);
  json["p99_" + name + "_ms"] = value(spread.p99);
}

Json json_of(const ServingRun& run) {
  const ServingFigures& f = run.figures;
  Json json = {
      {"request_rate", std::isinf(run.request_rate) ? Json("inf") : Json(run.request_rate)},
      {"max_concurrency", run.max_concurrency > 0 ? Json(run.max_concurrency) : Json()},
      {"num_prompts", run.num_prompts},
      {"duration", f.duration_s},
      {"completed", f.num_served},
      {"failed", f.num_failed},
      {"without_usage", f.num_without_usage},
      {"total_input_tokens", f.prompt_tokens},
      {"total_output_tokens", f.new_tokens},
      {"request_throughput", f.requests_per_s},
      {"output_throughput", f.new_tokens_per_s},
      {"total_token_throughput", f.tokens_per_s}};
  add_spread(json, "ttft", f.ttft_ms);
  add_spread(json, "tpot", f.tpot_ms);
  add_spread(json, "itl", f.itl_ms);
  add_spread(json, "e2el", f.e2e_ms);
  json["errors"] = f.errors;
  return json;
}

}  // namespace

std::string rate_text(double rate) { return std::isinf(rate) ? "inf" : fmt::format("{:g}", rate); }

std::string serving_block(const ServingRun& run) {
  const ServingFigures& f = run.figures;
  const auto number = [](double value) { return fmt::format("{:.2f}", value); };
  std::string text = rule("Serving Benchmark Result", '=');
  text += line("Successful requests:", std::to_string(f.num_served));
  text += line("Failed requests:", std::to_string(f.num_failed));
  if (run.max_concurrency > 0) {
    text += line("Maximum request concurrency:", std::to_string(run.max_concurrency));
  }
  text += line("Request rate configured (RPS):", rate_text(run.request_rate));
  text += line("Benchmark duration (s):", number(f.duration_s));
  text += line("Total input tokens:", std::to_string(f.prompt_tokens));
  text += line("Total generated tokens:", std::to_string(f.new_tokens));
  text += line("Request throughput (req/s):", number(f.requests_per_s));
  text += line("Output token throughput (tok/s):", number(f.new_tokens_per_s));
  text += line("Total token throughput (tok/s):", number(f.tokens_per_s));
  text += spread_lines("Time to First Token", "TTFT", f.ttft_ms);
  text += spread_lines("Time per Output Token (excl. 1st token)", "TPOT", f.tpot_ms);
  text += spread_lines("Inter-token Latency", "ITL", f.itl_ms);
  text += spread_lines("End-to-end Latency", "E2EL", f.e2e_ms);
  text += rule("", '=');
  for (const auto& [reason, count] : f.errors)
    text += fmt::format("failed {}: {}\n", count, reason);
  if (f.num_without_usage > 0) {
    text += fmt::format("{} answers told no usage: their pieces of text count as tokens\n",
                        f.num_without_usage);
  }
  return text;
}

std::string serving_json(const ServingFacts& facts, const std::vector<ServingRun>& runs) {
  Json list = Json::array();
  for (const ServingRun& run : runs) list.push_back(json_of(run));
  const Json document = {
      {"url", facts.url},         {"model_id", facts.model},  {"endpoint", facts.endpoint},
      {"prompts", facts.prompts}, {"seed", facts.seed},       {"version", facts.version},
      {"date", facts.date},       {"command", facts.command}, {"runs", list}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string serving_csv(const std::vector<ServingRun>& runs) {
  std::string text =
      "request_rate,max_concurrency,completed,failed,duration,total_input_tokens,"
      "total_output_tokens,request_throughput,output_throughput,total_token_throughput";
  for (const char* name : {"ttft", "tpot", "itl", "e2el"}) {
    text += fmt::format(",mean_{0}_ms,median_{0}_ms,p99_{0}_ms", name);
  }
  text += '\n';
  for (const ServingRun& run : runs) {
    const ServingFigures& f = run.figures;
    text +=
        fmt::format("{},{},{},{},{:.4f},{},{},{:.4f},{:.4f},{:.4f}", rate_text(run.request_rate),
                    run.max_concurrency, f.num_served, f.num_failed, f.duration_s, f.prompt_tokens,
                    f.new_tokens, f.requests_per_s, f.new_tokens_per_s, f.tokens_per_s);
    for (const Spread* spread : {&f.ttft_ms, &f.tpot_ms, &f.itl_ms, &f.e2e_ms}) {
      text += fmt::format(",{:.4f},{:.4f},{:.4f}", spread->mean, spread->median, spread->p99);
    }
    text += '\n';
  }
  return text;
}

}  // namespace colibri
