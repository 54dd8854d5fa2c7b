// Another choice of experts than the router's, for studying load: benchmarks of skew.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "coordinator/batch.h"
#include "model/config.h"

namespace colibri {

class RouteOverride {
 public:
  virtual ~RouteOverride() = default;
  // Replaces what the router chose in `layer`: expert_ids and weights [T, K], ids ascending within
  // a token, as Ops::route leaves them. The same for a token wherever it stands in the batch.
  virtual void choose(int layer, const Batch& batch, std::span<int32_t> expert_ids,
                      std::span<float> weights) = 0;
};

// Experts drawn at random for each token, K different ones, weights 1 / K. `skew` 0 draws all
// alike; S > 0 draws expert of popularity rank r (a fixed random order in each layer) in proportion
// to (r + 1)^-S.
std::unique_ptr<RouteOverride> make_random_routing(const ModelConfig& config, double skew,
                                                   uint64_t seed);

// The choices of a recorded run (--record-routes), token after token; a token takes that of its
// position, counted on from another one in each sequence, and begins anew at the record's end.
// Memory: the whole record. Errors: those of RouteFileReader; kInput for a record of another number
// of layers or experts or another K, or without tokens.
std::unique_ptr<RouteOverride> make_recorded_routing(const ModelConfig& config,
                                                     const std::filesystem::path& path);

}  // namespace colibri
