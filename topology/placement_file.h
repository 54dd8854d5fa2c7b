// The text form of a placement (docs/placement.md), and the command line's way to ask for one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "topology/placement.h"

namespace colibri {

// JSON, one line a layer. parse_placement(to_text(p)) == p. `shape` gives the model's fingerprint.
// `notes`: text of a JSON object that stands under "plan" for people and is not read back (what
// `colibri plan` predicted and advises); empty: none.
std::string placement_text(const Placement& placement, const ModelShape& shape,
                           const std::string& notes = "");

// Reads the text form. `where` (a path) begins every message. Slots are in the file's order.
// Errors: kInput for text that is not a placement (line, key, what came, what was wanted), for
// another version, and for a placement of another model, both models named.
Placement parse_placement(std::string_view text, const std::string& where, const ModelShape& shape);

// kEnvironment when the file cannot be read; otherwise as parse_placement.
Placement read_placement(const std::filesystem::path& path, const ModelShape& shape);

// Writes under a temporary name and renames. kEnvironment when that fails.
void write_placement(const std::filesystem::path& path, const Placement& placement,
                     const ModelShape& shape, const std::string& notes = "");

enum class PlacementKind : uint8_t { kContiguous, kRoundRobin, kRandom, kFile, kAuto };

struct PlacementChoice {
  PlacementKind kind = PlacementKind::kContiguous;
  uint64_t seed = 0;                // kRandom
  std::filesystem::path path = {};  // kFile
};

// "contiguous", "round-robin" (or "round_robin"), "random:SEED", "auto", otherwise a path. kInput
// for an empty text or a seed that is not a number.
PlacementChoice parse_placement_option(const std::string& text);

// The placement asked for, held against `options`: a file's number of ranks and the capacities.
// kInput for a file for another number of ranks, with --coordinator-experts besides a file, and for
// kAuto, which wants a machine (topology/planner.h).
Placement make_placement(const PlacementChoice& choice, const ModelShape& shape,
                         const PlacementOptions& options);

}  // namespace colibri
