// Writes a Hugging Face directory as one .colibri file: in bounded memory, in several threads, and
// so that a conversion killed at any moment goes on where it was and ends with the same bytes.
//
// While it runs, three names stand beside the target F: F.partial, the file being written;
// F.journal, what of it is done; and with `consume` F.source, stand-ins for removed files. F itself
// appears when all is written and durable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "model/weight_format.h"

namespace colibri {

struct ConversionOptions {
  std::filesystem::path source, target;
  WeightFormats formats;
  bool consume = false;  // remove each source file once all that reads it is durable
  uint64_t min_free_bytes =
      0;  // of the target's disk, left free: refuse before, wait while running
};

// What the caller sees and decides. Called from several threads, one at a time.
struct ConversionHooks {
  // Once, when all is checked: bytes of weights to write, and of these already written before.
  std::function<void(uint64_t total_bytes, uint64_t resumed_bytes)> on_start;
  std::function<void(uint64_t)> on_bytes;       // weights just written
  std::function<void(const std::string&)> say;  // why it waits
  std::function<bool()> wants_stop;             // true ends it soon; running it again goes on
  std::function<uint64_t()> free_bytes;         // of the target's disk; empty: asks the system
};

struct ConversionResult {
  uint64_t file_bytes = 0, resumed_bytes = 0;
};

// Errors, all before the target is touched: those of Checkpoint::open; kInput when the target
// exists, for widths that the format cannot group, and when an unfinished conversion of another
// model or form stands beside the target; kEnvironment when another process converts to it, when
// the disk will not hold it, when writing fails, and when `wants_stop` ended it; kUnsupported for a
// .colibri source, and for consuming links.
ConversionResult convert_checkpoint(const ConversionOptions& options, const ConversionHooks& hooks,
                                    ThreadPool& pool);

}  // namespace colibri
