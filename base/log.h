// Logging through spdlog: one logger a process, made in launch/ and handed down. Everything goes to
// stderr; the rank stands in the pattern.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string>

namespace colibri {

using Logger = std::shared_ptr<spdlog::logger>;

// A logger whose lines read "[hh:mm:ss.mmm] [rank 2] [warn] text". Level is one of trace, debug,
// info, warn, error, off; fails with kInput naming another.
Logger make_logger(int rank, const std::string& level);

// A logger that drops everything: for tests and for code that has nothing to say.
Logger make_null_logger();

}  // namespace colibri
