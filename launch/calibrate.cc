#include "launch/calibrate.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "launch/calibration_fit.h"
#include "launch/process_clock.h"
#include "launch/session_setup.h"
#include "topology/cluster_file.h"
#include "topology/system_memory.h"

namespace colibri {
namespace {

constexpr int64_t kFitTimeoutMs = 120'000;

std::string fit_text(const CalibrationFit& fit) {
  std::string text =
      "operation         fixed us  piece us  value ns    GB/s  cached  GOP/s  sharpness  error: "
      "median  largest\n";
  for (size_t i = 0; i < kNumOpKinds; ++i) {
    const OpCost& c = fit.device.narrow[i];
    text += fmt::format(
        "{:<17} {:8.2f} {:9.3f} {:9.3f} {:7.1f} {:7.1f} {:6.0f} {:10.2f} {:13.1f} % {:6.1f} %\n",
        to_string(static_cast<OpKind>(i)), c.fixed_us, c.piece_us, c.value_ns, c.gbps,
        c.cached_gbps, c.gops, c.sharpness, 100 * fit.errors[i].median, 100 * fit.errors[i].worst);
  }
  text += fmt::format("cached: what a step reads, where that is much less than {:.0f} MB\n",
                      fit.device.cache_bytes / 1e6);
  if (fit.link_gbps > 0) {
    text += fmt::format(
        "exchange of two ranks: {:.2f} us, {:.1f} GB/s out of caches, {:.1f} else\n",
        2 * fit.device.exchange_us, fit.link_gbps, fit.link_gbps / fit.device.exchange_uncached);
  }
  return text;
}

void write_machine(const std::string& path, const Cluster& cluster, const std::string& source) {
  std::ofstream file(path, std::ios::binary);
  file << cluster_text(cluster, source);
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, "--calibrate ", path, ": cannot be written");
}

}  // namespace

int calibrate(const RunConfig& config, RankContext& context) {
  const std::vector<CalibrationRun> runs = run_calibration(config, context);
  CalibrationFit fit;
  // The others wait for it: MPI's end has less patience.
  agreed(context, "fitting the calibration", kFitTimeoutMs, [&] {
    if (context.is_root()) fit = fit_calibration(runs);
  });
  if (!context.is_root()) return 0;
  const int threads = pool_options(config.common, context).num_threads;
  fit.device.name = fmt::format("cpu-{}-threads", threads);
  fit.device.peak_gbps = fit.device.cost(OpKind::kExperts, true).gbps;
  Cluster cluster =
      calibrated_cluster(fit, context.size, fmt::format("calibrated-{}", context.size));
  for (ClusterPart& part : cluster.parts) {
    part.num_cores = threads;
    part.memory_bytes = read_system_memory().total_bytes / context.size;
  }
  write_machine(config.bench.calibrate, cluster,
                fmt::format("bench --calibrate, {}: {}", today(), config.command));
  std::fputs(fit_text(fit).c_str(), stdout);
  return 0;
}

}  // namespace colibri
