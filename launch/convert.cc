#include "launch/convert.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "base/progress.h"
#include "base/units.h"
#include "launch/rank_signals.h"
#include "model/convert.h"

namespace colibri {
namespace {

std::string gb(uint64_t bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

ThreadPool::Options pool_options(const ConvertOptions& options) {
  const int cores = static_cast<int>(allowed_cpus().size());
  return {.num_threads = options.threads > 0 ? options.threads : cores, .spin = false};
}

}  // namespace

int convert(const ConvertOptions& options) {
  const ConversionOptions conversion{
      .source = options.source,
      .target = options.out,
      .formats = parse_weight_formats(options.weights, options.dense_weights),
      .consume = options.consume,
      .min_free_bytes = static_cast<uint64_t>(options.min_free_gb * 1e9)};
  install_drain_signals();
  std::optional<Progress> progress;
  ConversionHooks hooks;
  hooks.on_start = [&](uint64_t total, uint64_t resumed) {
    if (resumed > 0) {
      std::fputs(fmt::format("going on: {} of {} are written\n", gb(resumed), gb(total)).c_str(),
                 stderr);
    }
    progress.emplace("converting", total - resumed, stderr_progress());
  };
  hooks.on_bytes = [&](uint64_t bytes) { progress->add(bytes); };
  hooks.say = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  hooks.wants_stop = drain_requested;
  ThreadPool pool(pool_options(options));
  const ConversionResult result = convert_checkpoint(conversion, hooks, pool);
  if (progress) progress->finish();
  std::fputs(fmt::format("{}: {}\n", options.out, gb(result.file_bytes)).c_str(), stdout);
  return 0;
}

}  // namespace colibri
