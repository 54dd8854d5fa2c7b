#include "base/log.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/error.h"

namespace colibri {

Logger make_logger(int rank, const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off") {
    fail(ErrorKind::kInput, "--log-level is '", level,
         "', want trace, debug, info, warn, error or off");
  }
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("colibri", std::move(sink));
  logger->set_pattern("[%H:%M:%S.%e] [rank " + std::to_string(rank) + "] [%l] %v");
  logger->set_level(parsed);
  return logger;
}

Logger make_null_logger() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace colibri
