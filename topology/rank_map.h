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
  // A whole exchange: its start with the way's latency, and what the busiest link takes for the
  // bytes, joined by DeviceSpec::exchange_total_us. Over a network both are added: the exponent is
  // that of exchanges within a node, and published ones over networks are straight lines.
  // cached_share: of the rank's step, see DeviceSpec::exchange_uncached.
  double exchange_us(int rank, double latency_us, double link_us, double cached_share) const;
  // [R] how much of what each reads comes out of caches, when they read so much a step ([R]).
  std::vector<double> cached_shares(std::span<const double> step_bytes) const;
  // What a dispatch waits for where a layer's counts go over the host: DeviceSpec::counts_us and
  // the longest way's latency.
  double counts_us(int rank) const {
    return num_ranks() == 1 ? 0 : device(rank).counts_us + longest_latency_us();
  }
  bool crosses_packages(const LinkUse& use) const;
  bool crosses_nodes(const LinkUse& use) const;
  bool crosses_network() const { return crosses_network_; }  // between some of its ranks
  // The longest way's latency between a coordinator and a rank.
  double longest_latency_us() const;
  std::string link_name(const LinkUse& use) const;  // "node0.cpu0 > node0.cpu1 (upi-spr)"

 private:
  static std::vector<int> distinct(const std::vector<int>& parts);

  Cluster cluster_;
  std::vector<int> parts_, coordinators_;
  std::vector<int> ends_;      // distinct parts
  std::vector<size_t> place_;  // [R] in ends_
  ClusterRoutes routes_;
  std::vector<DeviceSpec> devices_;
  bool crosses_network_ = false;
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
//
// The exchange likewise: it is no sum of start and bytes (DeviceSpec::exchange_sharpness), so both
// are scaled to what each adds at the even spread, where their sum is exact.
LayerTerms layer_terms(const ModelShape& shape, const RankMap& ranks,
                       const LayerTermsOptions& options);

// The links alone, with the times that bytes take on them; num_tokens and links are filled.
LayerTerms link_terms(const ModelShape& shape, const RankMap& ranks,
                      const LayerTermsOptions& options);

// Microseconds of the busiest link for `count` [R] rows or results; which one, -1: none.
struct BusiestLink {
  double us = 0;
  int link = -1;
};
BusiestLink busiest_link(const std::vector<LinkTerm>& links, std::vector<double> LinkTerm::*us,
                         const std::vector<double>& count);

}  // namespace colibri
