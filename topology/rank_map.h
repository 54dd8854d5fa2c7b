// Where the ranks of a run stand on a machine, and over which links their messages go.
#pragma once

#include <string>
#include <vector>

#include "base/model_shape.h"
#include "topology/cluster.h"
#include "topology/layer_terms.h"
#include "topology/step_work.h"

namespace colibri {

// Immutable. Ranks on one part share its rates evenly.
class RankMap {
 public:
  // part_of_rank [R]; coordinators: ascending ranks that run attention, at least one. `cluster` is
  // copied. kInput for a part that runs no ranks or a rank out of range.
  RankMap(const Cluster& cluster, std::vector<int> part_of_rank, std::vector<int> coordinators);

  int num_ranks() const { return static_cast<int>(parts_.size()); }
  const Cluster& cluster() const { return cluster_; }
  const std::vector<int>& coordinators() const { return coordinators_; }
  const ClusterPart& part(int rank) const {
    return cluster_.parts[static_cast<size_t>(parts_[static_cast<size_t>(rank)])];
  }
  // As much of its part's device as the rank has.
  const DeviceSpec& device(int rank) const { return devices_[static_cast<size_t>(rank)]; }
  bool is_gpu(int rank) const { return device(rank).is_gpu; }
  // Of messages from one rank to another; none on one part.
  std::span<const LinkUse> route(int from, int to) const {
    return routes_.between(place_[static_cast<size_t>(from)], place_[static_cast<size_t>(to)]);
  }
  double latency_us(int from, int to) const {
    return routes_.latency_us(place_[static_cast<size_t>(from)], place_[static_cast<size_t>(to)]);
  }
  // What an exchange takes without a byte, as `rank` sees it.
  double exchange_us(int rank) const;
  bool crosses_packages(const LinkUse& use) const;
  bool crosses_nodes(const LinkUse& use) const;
  std::string link_name(const LinkUse& use) const;  // "node0.cpu0 > node0.cpu1 (upi-spr)"

 private:
  static std::vector<int> distinct(const std::vector<int>& parts);

  Cluster cluster_;
  std::vector<int> parts_, coordinators_;
  std::vector<int> ends_;      // distinct parts
  std::vector<size_t> place_;  // [R] in ends_
  ClusterRoutes routes_;
  std::vector<DeviceSpec> devices_;
};

// What the planner minimises, of a mean layer: `size` is the step of each coordinator. Rates of
// experts are those at an even spread of uniform choices over the ranks that hold any (all but a
// lone coordinator among several ranks), where reading and computing share the time as they do
// there.
struct LayerTermsOptions {
  StepSize size;
  bool adds_results = false;
  bool coordinator_holds_experts = false;  // for the even spread only
};
LayerTerms layer_terms(const ModelShape& shape, const RankMap& ranks,
                       const LayerTermsOptions& options);

}  // namespace colibri
