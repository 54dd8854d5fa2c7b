#include <charconv>

#include "base/error.h"
#include "topology/placement_file.h"

namespace colibri {
namespace {

constexpr std::string_view kRandomPrefix = "random:";

uint64_t parse_seed(std::string_view text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::kInput, "--placement random has seed '", text,
         "', want a whole number, as in random:7");
  }
  return seed;
}

}  // namespace

PlacementChoice parse_placement_option(const std::string& text) {
  if (text == "contiguous") return {.kind = PlacementKind::kContiguous};
  if (text == "round-robin" || text == "round_robin") return {.kind = PlacementKind::kRoundRobin};
  if (text == "random" || text.starts_with(kRandomPrefix)) {
    const size_t used = std::min(text.size(), kRandomPrefix.size());
    return {.kind = PlacementKind::kRandom,
            .seed = parse_seed(std::string_view(text).substr(used))};
  }
  if (text == "auto") return {.kind = PlacementKind::kAuto};
  if (text.empty()) {
    fail(ErrorKind::kInput,
         "--placement is empty, want contiguous, round-robin, random:SEED, auto or a file");
  }
  return {.kind = PlacementKind::kFile, .path = text};
}

Placement make_placement(const PlacementChoice& choice, const ModelShape& shape,
                         const PlacementOptions& options) {
  switch (choice.kind) {
    case PlacementKind::kContiguous:
      return contiguous_placement(shape, options);
    case PlacementKind::kRoundRobin:
      return round_robin_placement(shape, options);
    case PlacementKind::kRandom:
      return random_placement(shape, options, choice.seed);
    case PlacementKind::kAuto:
      fail(ErrorKind::kInput,
           "--placement auto is planned for a machine, which this verb does not look at; write a "
           "file with `colibri plan --out FILE` and give that");
    case PlacementKind::kFile:
      break;
  }
  if (options.coordinator_experts != 0) {
    fail(ErrorKind::kInput, "--coordinator-experts ", options.coordinator_experts,
         " has no meaning with a placement file; write rank 0's experts into ",
         choice.path.string());
  }
  Placement placement = read_placement(choice.path, shape);
  if (placement.num_ranks() != options.num_ranks) {
    fail(ErrorKind::kInput, choice.path.string(), ": placement is for ", placement.num_ranks(),
         " ranks, this run has ", options.num_ranks);
  }
  check_capacity(placement, options.capacity_slots);
  return placement;
}

}  // namespace colibri
