#include "topology/rank_map.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"

namespace colibri {
namespace {

DeviceSpec share_of(const DeviceSpec& device, int num_sharers) {
  DeviceSpec part = device;
  for (auto* costs : {&part.wide, &part.narrow}) {
    for (OpCost& cost : *costs) {
      cost.gbps /= num_sharers;
      cost.gops /= num_sharers;
    }
  }
  return part;
}

// Sums over coordinators what each direction of each link carries.
class LinkTerms {
 public:
  LinkTerms(const RankMap& ranks, bool is_dispatch) : ranks_(ranks), is_dispatch_(is_dispatch) {}

  void add(int coordinator, int rank, double bytes) {
    const int from = is_dispatch_ ? coordinator : rank, to = is_dispatch_ ? rank : coordinator;
    const double share = 1.0 / static_cast<double>(ranks_.coordinators().size());
    for (const LinkUse& use : ranks_.route(from, to)) {
      LinkTerm& term = terms_[{use.link, use.forward}];
      if (term.name.empty()) {
        const auto num_ranks = static_cast<size_t>(ranks_.num_ranks());
        term = {.name = ranks_.link_name(use),
                .crosses_packages = ranks_.crosses_packages(use),
                .crosses_nodes = ranks_.crosses_nodes(use),
                .row_us = std::vector<double>(num_ranks),
                .result_us = std::vector<double>(num_ranks)};
      }
      const double gbps = ranks_.cluster().links[static_cast<size_t>(use.link)].gbps;
      std::vector<double>& us = is_dispatch_ ? term.row_us : term.result_us;
      us[static_cast<size_t>(rank)] += share * bytes / (gbps * 1e3);
    }
  }

  std::vector<LinkTerm> take() const {
    std::vector<LinkTerm> list;
    for (const auto& [use, term] : terms_) list.push_back(term);
    return list;
  }

 private:
  const RankMap& ranks_;
  bool is_dispatch_;
  std::map<std::pair<int, bool>, LinkTerm> terms_;
};

bool holds_experts(const RankMap& ranks, int rank, const LayerTermsOptions& options) {
  return rank != 0 || ranks.coordinators().size() > 1 || ranks.num_ranks() == 1 ||
         options.coordinator_holds_experts;
}

// OpCost is of degree one in both parts, so these shares of its derivative add up to it exactly at
// the even spread.
void add_expert_rates(const ModelShape& shape, const RankMap& ranks,
                      const LayerTermsOptions& options, LayerTerms& terms) {
  int num_holders = 0;
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    num_holders += holds_experts(ranks, rank, options) ? 1 : 0;
  }
  const double slots = static_cast<double>(shape.num_experts) / std::max(1, num_holders);
  const double chance = static_cast<double>(shape.top_k) / std::max(1, shape.num_experts);
  const double touched = slots * (1 - std::pow(1 - chance, terms.num_tokens));
  const double pairs = terms.num_tokens * shape.top_k / std::max(1, num_holders);
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    const OpCost& cost = ranks.device(rank).cost(OpKind::kExperts, experts_are_narrow(shape));
    const double read_us = static_cast<double>(shape.expert_bytes) / (cost.gbps * 1e3);
    const double compute_us = 2 * static_cast<double>(shape.expert_macs()) / (cost.gops * 1e3);
    const double reading = touched * read_us, computing = pairs * compute_us;
    const double both = expert_us(shape, ranks.device(rank), touched, pairs) - cost.fixed_us;
    const double p = cost.sharpness - 1;
    terms.expert_fixed_us.push_back(cost.fixed_us);
    terms.touched_us.push_back(read_us * (both > 0 ? std::pow(reading / both, p) : 1));
    terms.row_us.push_back(compute_us * (both > 0 ? std::pow(computing / both, p) : 1));
  }
}

}  // namespace

RankMap::RankMap(const Cluster& cluster, std::vector<int> part_of_rank,
                 std::vector<int> coordinators)
    : cluster_(cluster),
      parts_(std::move(part_of_rank)),
      coordinators_(std::move(coordinators)),
      ends_(distinct(parts_)),
      routes_(cluster_, ends_) {
  std::map<int, int> sharers;
  for (const int part : parts_) {
    const bool runs = part >= 0 && part < static_cast<int>(cluster_.parts.size()) &&
                      cluster_.parts[static_cast<size_t>(part)].device >= 0;
    if (!runs) fail(ErrorKind::kInput, "part ", part, " of ", cluster_.name, " runs no ranks");
    ++sharers[part];
  }
  for (const int part : parts_) {
    place_.push_back(
        static_cast<size_t>(std::find(ends_.begin(), ends_.end(), part) - ends_.begin()));
    devices_.push_back(share_of(cluster_.device_of(part), sharers[part]));
  }
  for (const int rank : coordinators_) {
    if (rank >= 0 && rank < num_ranks()) continue;
    fail(ErrorKind::kInput, "coordinator ", rank, " is none of ", num_ranks(), " ranks");
  }
  check(!coordinators_.empty(), "a run without a coordinator");
}

std::vector<int> RankMap::distinct(const std::vector<int>& parts) {
  std::vector<int> ends = parts;
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

double RankMap::exchange_us(int rank) const {
  if (num_ranks() == 1) return 0;
  return device(rank).exchange_us + device(rank).exchange_us_per_peer * (num_ranks() - 1);
}

bool RankMap::crosses_nodes(const LinkUse& use) const {
  const ClusterLink& link = cluster_.links[static_cast<size_t>(use.link)];
  return cluster_.parts[static_cast<size_t>(link.a)].kind == PartKind::kFabric ||
         cluster_.parts[static_cast<size_t>(link.b)].kind == PartKind::kFabric;
}

bool RankMap::crosses_packages(const LinkUse& use) const {
  const ClusterLink& link = cluster_.links[static_cast<size_t>(use.link)];
  const ClusterPart &a = cluster_.parts[static_cast<size_t>(link.a)],
                    &b = cluster_.parts[static_cast<size_t>(link.b)];
  if (crosses_nodes(use)) return true;
  return a.kind == PartKind::kCpu && b.kind == PartKind::kCpu && a.package != b.package;
}

std::string RankMap::link_name(const LinkUse& use) const {
  const ClusterLink& link = cluster_.links[static_cast<size_t>(use.link)];
  const int from = use.forward ? link.a : link.b, to = use.forward ? link.b : link.a;
  return cluster_.parts[static_cast<size_t>(from)].name + " > " +
         cluster_.parts[static_cast<size_t>(to)].name + " (" + link.kind + ")";
}

LayerTerms layer_terms(const ModelShape& shape, const RankMap& ranks,
                       const LayerTermsOptions& options) {
  LayerTerms terms;
  terms.num_tokens = options.size.num_tokens * static_cast<double>(ranks.coordinators().size());
  terms.adds_results = options.adds_results;
  add_expert_rates(shape, ranks, options, terms);
  LinkTerms dispatch(ranks, true), combine(ranks, false);
  for (const int coordinator : ranks.coordinators()) {
    terms.exchange_us = std::max(terms.exchange_us, 2 * ranks.exchange_us(coordinator));
    for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
      dispatch.add(coordinator, rank, row_bytes(shape, ranks.is_gpu(rank)));
      combine.add(coordinator, rank, result_bytes(shape, ranks.is_gpu(rank)));
    }
  }
  terms.dispatch_links = dispatch.take();
  terms.combine_links = combine.take();
  return terms;
}

}  // namespace colibri
