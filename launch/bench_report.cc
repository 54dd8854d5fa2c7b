#include "launch/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "launch/bench_gpu_report.h"

namespace colibri {
namespace {

// Medians over the samples of one case, as all three forms show them.
struct Row {
  double tokens_per_s = 0, deviation = 0, ms_per_step = 0;
  double gbps = 0, gops = 0;
  double exchange_mb_per_step = 0, exchange_share = 0;
};

using SampleValue = std::function<double(const BenchSample&)>;

double median_of(const BenchResult& result, const SampleValue& value) {
  std::vector<double> values;
  for (const BenchSample& sample : result.samples) values.push_back(value(sample));
  return median(values);
}

double stage_us(const BenchSample& sample, Stage stage) {
  return sample.stage_us[static_cast<size_t>(stage)];
}

double share_of_stage(const BenchResult& result, Stage stage) {
  return median_of(result,
                   [&](const BenchSample& s) { return stage_us(s, stage) / 1e6 / s.seconds; });
}

Row row_of(const BenchResult& result) {
  const auto per_step = [](double value, const BenchSample& s) {
    return value / static_cast<double>(s.num_steps);
  };
  std::vector<double> rates;
  for (const BenchSample& sample : result.samples) rates.push_back(sample.tokens_per_s());
  Row row;
  row.tokens_per_s = median(rates);
  row.deviation = standard_deviation(rates);
  row.ms_per_step =
      median_of(result, [&](const BenchSample& s) { return per_step(s.seconds * 1e3, s); });
  row.gbps = median_of(result, [](const BenchSample& s) {
    return static_cast<double>(s.traffic.bytes) / 1e9 / s.seconds;
  });
  row.gops = median_of(result, [](const BenchSample& s) {
    return 2 * static_cast<double>(s.traffic.macs) / 1e9 / s.seconds;
  });
  row.exchange_mb_per_step = median_of(result, [&](const BenchSample& s) {
    return per_step(static_cast<double>(s.dispatch_bytes + s.combine_bytes) / 1e6, s);
  });
  row.exchange_share =
      share_of_stage(result, Stage::kDispatch) + share_of_stage(result, Stage::kWait);
  return row;
}

// What a run reads and multiplies is held against the limits of where it runs.
double read_gbps(const BenchReport& report) {
  return median(report.facts.is_on_gpu ? report.limits.gpu.copy_gbps : report.limits.read_gbps);
}

double peak_gops(const BenchReport& report) {
  if (report.facts.is_on_gpu) return 1e3 * median(report.limits.gpu.product_tflops);
  return report.facts.has_quantised_experts ? median(report.limits.int8_gops)
                                            : median(report.limits.f32_gflops);
}

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-";
}

std::string limits_text(const BenchReport& report) {
  if (report.facts.is_on_gpu) return "";
  if (report.limits.read_gbps.empty()) return "limits were not measured\n";
  return fmt::format(
      "limits, measured between the runs: read {:.1f} GB/s, f32 {:.0f} GFLOP/s, int8 {:.0f} "
      "GOP/s\n",
      median(report.limits.read_gbps), median(report.limits.f32_gflops),
      median(report.limits.int8_gops));
}

std::string main_table(const BenchReport& report) {
  std::string text =
      "| test | batch | tokens/s | ms/step | GB/s | of read | GOP/s | of peak | exchange MB/step | "
      "exchange time |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  const double read = read_gbps(report), peak = peak_gops(report);
  for (const BenchResult& result : report.results) {
    const Row row = row_of(result);
    text += fmt::format(
        "| {} | {} | {:.2f} ± {:.2f} | {:.2f} | {:.2f} | {} | {:.1f} | {} | {:.3f} "
        "| {} |\n",
        result.what.name(), result.what.batch, row.tokens_per_s, row.deviation, row.ms_per_step,
        row.gbps, percent(row.gbps, read), row.gops, percent(row.gops, peak),
        row.exchange_mb_per_step, percent(row.exchange_share, 1));
  }
  return text;
}

// Medians of a step, in the groups of a prediction; of a GPU the host's part only.
PredictedStep measured_step(const BenchResult& result) {
  const auto of = [&](std::initializer_list<Stage> stages) {
    return median_of(result, [&](const BenchSample& s) {
      double us = 0;
      for (const Stage stage : stages) us += stage_us(s, stage);
      return us / static_cast<double>(s.num_steps);
    });
  };
  return {.step_us = 1e3 * row_of(result).ms_per_step,
          .own_us = of({Stage::kEmbed, Stage::kAttention, Stage::kDenseMlp, Stage::kRouter,
                        Stage::kDispatch, Stage::kCombine}),
          .experts_us = of({Stage::kShared, Stage::kExperts, Stage::kWait}),
          .head_us = of({Stage::kHead})};
}

// Empty without predictions.
std::string prediction_table(const BenchReport& report) {
  std::string text;
  const bool has_parts = !report.facts.is_on_gpu;
  for (const BenchResult& result : report.results) {
    if (!result.predicted) continue;
    const PredictedStep m = measured_step(result), &p = *result.predicted;
    text += fmt::format("| {} | {} | {:.3f} | {:.3f} | {:+.1f} % |", result.what.name(),
                        result.what.batch, m.step_us / 1e3, p.step_us / 1e3,
                        m.step_us > 0 ? 100 * (p.step_us / m.step_us - 1) : 0);
    if (has_parts) {
      text += fmt::format(" {:.3f} / {:.3f} | {:.3f} / {:.3f} | {:.3f} / {:.3f} |", m.own_us / 1e3,
                          p.own_us / 1e3, m.experts_us / 1e3, p.experts_us / 1e3, m.head_us / 1e3,
                          p.head_us / 1e3);
    }
    text += '\n';
  }
  if (text.empty()) return text;
  return "\nA step, predicted beside measured" +
         std::string(has_parts ? "; its parts in ms, measured / predicted" : "") +
         ":\n\n| test | batch | ms/step | predicted | error |" +
         (has_parts ? " attention, router | experts, exchange | head |\n" : "\n") +
         "|---|---:|---:|---:|---:|" + (has_parts ? "---:|---:|---:|\n" : "\n") + text;
}

std::string stage_table(const BenchReport& report) {
  std::string head = "| test | batch |", rule = "|---|---:|";
  for (size_t i = 0; i < kNumStages; ++i) {
    head += fmt::format(" {} |", to_string(static_cast<Stage>(i)));
    rule += "---:|";
  }
  std::string text = head + " rest |\n" + rule + "---:|\n";
  for (const BenchResult& result : report.results) {
    text += fmt::format("| {} | {} |", result.what.name(), result.what.batch);
    double rest = 1;
    for (size_t i = 0; i < kNumStages; ++i) {
      const double share = share_of_stage(result, static_cast<Stage>(i));
      rest -= share;
      text += fmt::format(" {:.1f} % |", 100 * share);
    }
    text += fmt::format(" {:.1f} % |\n", 100 * std::max(rest, 0.0));
  }
  return text;
}

// Not where rows travel between devices: no host sees when.
bool ranks_are_timed(const BenchReport& report) {
  for (const BenchResult& result : report.results) {
    for (const BenchSample& s : result.samples) {
      if (std::any_of(s.compute_us.begin(), s.compute_us.end(), [](double us) { return us > 0; })) {
        return true;
      }
    }
  }
  return false;
}

// For each rank: share of the time that it computed, and that the coordinator waited for it.
std::string rank_table(const BenchReport& report) {
  std::string head = "| test | batch |", rule = "|---|---:|";
  for (int rank = 0; rank < report.facts.num_ranks; ++rank) {
    head += fmt::format(" rank {} |", rank);
    rule += "---:|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const BenchResult& result : report.results) {
    text += fmt::format("| {} | {} |", result.what.name(), result.what.batch);
    for (size_t rank = 0; rank < static_cast<size_t>(report.facts.num_ranks); ++rank) {
      const double computed =
          median_of(result, [&](const BenchSample& s) { return s.compute_us[rank] / s.seconds; });
      const double waited =
          median_of(result, [&](const BenchSample& s) { return s.wait_us[rank] / s.seconds; });
      text += fmt::format(" {:.1f} %, {:.1f} % |", computed / 1e4, waited / 1e4);
    }
    text += "\n";
  }
  return text;
}

nlohmann::json json_of(const BenchSample& s) {
  nlohmann::json stages;
  for (size_t i = 0; i < kNumStages; ++i) {
    stages[to_string(static_cast<Stage>(i))] = s.stage_us[i];
  }
  return {{"seconds", s.seconds},
          {"tokens", s.num_tokens},
          {"tokens_per_s", s.tokens_per_s()},
          {"steps", s.num_steps},
          {"stage_us", stages},
          {"bytes_read", s.traffic.bytes},
          {"multiply_adds", s.traffic.macs},
          {"dispatch_bytes", s.dispatch_bytes},
          {"combine_bytes", s.combine_bytes},
          {"messages", s.num_messages},
          {"wait_us_by_rank", s.wait_us},
          {"compute_us_by_rank", s.compute_us}};
}

nlohmann::json gpu_json_of(const BenchResult& result) {
  const GpuRow row = gpu_row_of(result);
  nlohmann::json kinds = nlohmann::json::object();
  for (const GpuRow::Kind& kind : row.kinds) {
    kinds[kind.name] = {{"calls_per_step", kind.calls_per_step},
                        {"ms_per_step", kind.ms_per_step},
                        {"share", kind.share},
                        {"gb_per_s", kind.gbps},
                        {"tflop_per_s", kind.tflops}};
  }
  return {{"host_ms_per_step", row.host_ms_per_step},
          {"kernel_ms_per_step", row.kernel_ms_per_step},
          {"kernel_share", row.kernel_share},
          {"fixed_steps", row.fixed_steps},
          {"reruns", row.reruns},
          {"rerun_share", row.rerun_share},
          {"kernels", kinds}};
}

nlohmann::json json_of(const BenchReport& report, const BenchResult& result) {
  const Row row = row_of(result);
  const auto share = [](double part, double whole) -> nlohmann::json {
    return whole > 0 ? nlohmann::json(part / whole) : nlohmann::json(nullptr);
  };
  nlohmann::json samples = nlohmann::json::array();
  for (const BenchSample& sample : result.samples) samples.push_back(json_of(sample));
  nlohmann::json json = {{"test", result.what.name()},
                         {"kind", result.what.is_prefill ? "prefill" : "decode"},
                         {"tokens", result.what.tokens},
                         {"batch", result.what.batch},
                         {"tokens_per_s", row.tokens_per_s},
                         {"tokens_per_s_deviation", row.deviation},
                         {"ms_per_step", row.ms_per_step},
                         {"gb_per_s", row.gbps},
                         {"share_of_read", share(row.gbps, read_gbps(report))},
                         {"gop_per_s", row.gops},
                         {"share_of_peak", share(row.gops, peak_gops(report))},
                         {"exchange_mb_per_step", row.exchange_mb_per_step},
                         {"exchange_share", row.exchange_share},
                         {"samples", samples}};
  if (result.predicted) json["predicted_ms_per_step"] = result.predicted->step_us / 1e3;
  if (report.facts.is_on_gpu) json["gpu"] = gpu_json_of(result);
  return json;
}

nlohmann::json json_of(const BenchLimits& limits, bool is_on_gpu) {
  nlohmann::json json = {{"read_gb_per_s", limits.read_gbps},
                         {"f32_gflop_per_s", limits.f32_gflops},
                         {"int8_gop_per_s", limits.int8_gops}};
  if (is_on_gpu) {
    json["gpu"] = {{"copy_gb_per_s", limits.gpu.copy_gbps},
                   {"to_gpu_gb_per_s", limits.gpu.to_gpu_gbps},
                   {"from_gpu_gb_per_s", limits.gpu.from_gpu_gbps},
                   {"product_tflop_per_s", limits.gpu.product_tflops}};
  }
  return json;
}

nlohmann::json json_of(const BenchFacts& f) {
  return {{"model", f.model},       {"family", f.family},
          {"layers", f.num_layers}, {"weights", f.weights},
          {"routing", f.routing},   {"placement", f.placement},
          {"backend", f.backend},   {"transport", f.transport},
          {"ranks", f.num_ranks},   {"threads_per_rank", f.threads_per_rank},
          {"version", f.version},   {"date", f.date},
          {"command", f.command},   {"cpu", f.cpu},
          {"machine", f.machine}};
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  double mean = 0, square = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) square += (value - mean) * (value - mean);
  return std::sqrt(square / static_cast<double>(values.size() - 1));
}

std::string report_markdown(const BenchReport& report) {
  const BenchFacts& f = report.facts;
  std::string text = fmt::format(
      "{} ({}, {} layers), {}; {}, {} rank{} of {} thread{}, {} routing\n{}, {}, colibri {}\n"
      "`{}`\n",
      f.model, f.family, f.num_layers, f.weights, f.backend, f.num_ranks,
      f.num_ranks == 1 ? "" : "s", f.threads_per_rank, f.threads_per_rank == 1 ? "" : "s",
      f.routing, f.cpu, f.date, f.version, f.command);
  text += limits_text(report) + "\n" + main_table(report);
  text += "\nWhere the coordinator's time goes:\n\n" + stage_table(report);
  text += prediction_table(report);
  if (f.is_on_gpu) text += gpu_markdown(report);
  if (f.num_ranks > 1 && ranks_are_timed(report)) {
    text += "\nEach rank computed, and was waited for:\n\n" + rank_table(report);
  }
  return text;
}

std::string report_json(const BenchReport& report) {
  nlohmann::json results = nlohmann::json::array();
  for (const BenchResult& result : report.results) results.push_back(json_of(report, result));
  const nlohmann::json document = {{"facts", json_of(report.facts)},
                                   {"limits", json_of(report.limits, report.facts.is_on_gpu)},
                                   {"results", results}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string report_csv(const BenchReport& report) {
  std::string text =
      "test,batch,repetitions,tokens_per_s,deviation,ms_per_step,gb_per_s,gop_per_s,"
      "exchange_mb_per_step,exchange_share,read_gb_per_s,peak_gop_per_s";
  text += (report.facts.is_on_gpu ? gpu_csv_head() : "") + "\n";
  for (const BenchResult& result : report.results) {
    const Row row = row_of(result);
    text +=
        fmt::format("{},{},{},{:.4f},{:.4f},{:.5f},{:.4f},{:.3f},{:.6f},{:.5f},{:.3f},{:.2f}",
                    result.what.name(), result.what.batch, result.samples.size(), row.tokens_per_s,
                    row.deviation, row.ms_per_step, row.gbps, row.gops, row.exchange_mb_per_step,
                    row.exchange_share, read_gbps(report), peak_gops(report));
    text += (report.facts.is_on_gpu ? gpu_csv_columns(report, result) : "") + "\n";
  }
  return text;
}

std::string perplexity_text(const std::string& format, const Perplexity& measured,
                            const BenchFacts& facts) {
  if (format == "csv") {
    return fmt::format(
        "tokens,windows,mean_nll,perplexity,tokens_per_s\n{},{},{:.6f},{:.6f},{:.2f}\n",
        measured.num_tokens, measured.num_windows, measured.mean_nll, measured.perplexity,
        measured.tokens_per_s);
  }
  if (format == "json") {
    const nlohmann::json document = {{"facts", json_of(facts)},
                                     {"tokens", measured.num_tokens},
                                     {"windows", measured.num_windows},
                                     {"mean_nll", measured.mean_nll},
                                     {"perplexity", measured.perplexity},
                                     {"seconds", measured.seconds},
                                     {"tokens_per_s", measured.tokens_per_s},
                                     {"was_stopped", measured.was_stopped}};
    return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return fmt::format(
      "{} ({}), {}\nperplexity {:.5f} ({:.5f} nats a token), {} tokens in {} window{}{}, {:.0f} "
      "tokens/s\n",
      facts.model, facts.backend, facts.weights, measured.perplexity, measured.mean_nll,
      measured.num_tokens, measured.num_windows, measured.num_windows == 1 ? "" : "s",
      measured.was_stopped ? " (stopped early)" : "", measured.tokens_per_s);
}

}  // namespace colibri
