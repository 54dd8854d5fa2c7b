#include "launch/bench_gpu_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace colibri {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-";
}

GpuRow::Kind kind_row(const GpuProfile& profile, OpGroup kind) {
  const OpTotals& totals = profile.kinds[static_cast<size_t>(kind)];
  const auto steps = static_cast<double>(profile.num_steps);
  return {.name = to_string(kind),
          .calls_per_step = ratio(static_cast<double>(totals.num_calls), steps),
          .ms_per_step = ratio(totals.us / 1e3, steps),
          .share = ratio(ratio(totals.us, steps), profile.us_per_step()),
          .gbps = ratio(totals.bytes / 1e3, totals.us),
          .tflops = ratio(totals.flops / 1e6, totals.us)};
}

// "dense products" -> "dense_products"
std::string column_name(OpGroup kind) {
  std::string name = to_string(kind);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::string limits_line(const GpuLimits& limits) {
  if (!limits.is_measured()) return "the GPU's limits were not measured\n";
  return fmt::format(
      "the GPU's limits, measured between the runs: copy {:.1f} GB/s, from the host {:.1f} GB/s, "
      "to the host {:.1f} GB/s, a large bf16 product {:.2f} TFLOP/s\n",
      median(limits.copy_gbps), median(limits.to_gpu_gbps), median(limits.from_gpu_gbps),
      median(limits.product_tflops));
}

std::string step_table(const BenchReport& report) {
  std::string text =
      "| test | batch | host ms/step | kernel ms/step | kernels of step | fixed-size steps | run "
      "again |\n|---|---:|---:|---:|---:|---:|---:|\n";
  for (const BenchResult& result : report.results) {
    const GpuRow row = gpu_row_of(result);
    text += fmt::format("| {} | {} | {:.3f} | {:.3f} | {} | {:.0f} | {} |\n", result.what.name(),
                        result.what.batch, row.host_ms_per_step, row.kernel_ms_per_step,
                        percent(row.kernel_share, 1), row.fixed_steps,
                        row.fixed_steps > 0 ? fmt::format("{:.2f} %", 100 * row.rerun_share) : "-");
  }
  return text;
}

std::string kind_table(const BenchReport& report) {
  std::string text =
      "| test | batch | kernels | calls/step | ms/step | share | GB/s | of copy | TFLOP/s | of "
      "product |\n|---|---:|---|---:|---:|---:|---:|---:|---:|---:|\n";
  const GpuLimits& limits = report.limits.gpu;
  const double copy = median(limits.copy_gbps), product = median(limits.product_tflops);
  for (const BenchResult& result : report.results) {
    for (const GpuRow::Kind& kind : gpu_row_of(result).kinds) {
      text += fmt::format("| {} | {} | {} | {:.1f} | {:.3f} | {} | {:.1f} | {} | {:.3f} | {} |\n",
                          result.what.name(), result.what.batch, kind.name, kind.calls_per_step,
                          kind.ms_per_step, percent(kind.share, 1), kind.gbps,
                          percent(kind.gbps, copy), kind.tflops, percent(kind.tflops, product));
    }
  }
  return text;
}

}  // namespace

GpuRow gpu_row_of(const BenchResult& result) {
  GpuRow row;
  std::vector<double> host, step;
  for (const BenchSample& s : result.samples) {
    const auto steps = static_cast<double>(s.num_steps);
    step.push_back(ratio(s.seconds * 1e3, steps));
    host.push_back(ratio(s.seconds * 1e3 - s.waited_us / 1e3, steps));
    row.fixed_steps += static_cast<double>(s.fixed.num_steps);
    row.reruns += static_cast<double>(s.fixed.num_reruns);
  }
  row.host_ms_per_step = median(host);
  row.rerun_share = ratio(row.reruns, row.fixed_steps);
  if (!result.profile) return row;
  row.kernel_ms_per_step = result.profile->us_per_step() / 1e3;
  row.kernel_share = ratio(row.kernel_ms_per_step, median(step));
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    const GpuRow::Kind kind = kind_row(*result.profile, static_cast<OpGroup>(i));
    if (kind.calls_per_step > 0) row.kinds.push_back(kind);
  }
  return row;
}

std::string gpu_markdown(const BenchReport& report) {
  return "\n" + limits_line(report.limits.gpu) +
         "\nA step on rank 0's GPU; kernels as timed call by call in one further run, caches cold "
         "and no graphs:\n\n" +
         step_table(report) + "\n" + kind_table(report);
}

std::string gpu_csv_head() {
  std::string text =
      ",host_ms_per_step,kernel_ms_per_step,kernel_share,fixed_steps,rerun_share,copy_gb_per_s,"
      "to_gpu_gb_per_s,from_gpu_gb_per_s,product_tflop_per_s";
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    const std::string name = column_name(static_cast<OpGroup>(i));
    text += fmt::format(",{0}_ms_per_step,{0}_gb_per_s,{0}_tflop_per_s", name);
  }
  return text;
}

std::string gpu_csv_columns(const BenchReport& report, const BenchResult& result) {
  const GpuRow row = gpu_row_of(result);
  const GpuLimits& limits = report.limits.gpu;
  std::string text =
      fmt::format(",{:.5f},{:.5f},{:.5f},{:.0f},{:.5f},{:.3f},{:.3f},{:.3f},{:.4f}",
                  row.host_ms_per_step, row.kernel_ms_per_step, row.kernel_share, row.fixed_steps,
                  row.rerun_share, median(limits.copy_gbps), median(limits.to_gpu_gbps),
                  median(limits.from_gpu_gbps), median(limits.product_tflops));
  const GpuProfile profile = result.profile.value_or(GpuProfile{});
  for (size_t i = 0; i < kNumOpGroups; ++i) {
    const GpuRow::Kind kind = kind_row(profile, static_cast<OpGroup>(i));
    text += fmt::format(",{:.5f},{:.3f},{:.5f}", kind.ms_per_step, kind.gbps, kind.tflops);
  }
  return text;
}

}  // namespace colibri
