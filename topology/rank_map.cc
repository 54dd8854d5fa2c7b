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
      cost.cached_gbps /= num_sharers;
      cost.piece_us *= num_sharers;
      cost.value_ns *= num_sharers;
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

// Uniform choices over the ranks that hold experts.
struct EvenSpread {
  std::vector<double> holds = {};  // [R] 1 for a rank that holds experts, else 0
  // Of each of these.
  double slots = 0, touched = 0, pairs = 0, rows = 0;
  std::vector<double> cached = {};  // [R] shares of what each reads
};

EvenSpread even_spread(const ModelShape& shape, const RankMap& ranks,
                       const LayerTermsOptions& options, double num_tokens) {
  EvenSpread even;
  double holders = 0;
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    even.holds.push_back(holds_experts(ranks, rank, options) ? 1 : 0);
    holders += even.holds.back();
  }
  holders = std::max(1.0, holders);
  even.slots = shape.num_experts / holders;
  const double chance = static_cast<double>(shape.top_k) / std::max(1, shape.num_experts);
  even.touched = even.slots * (1 - std::pow(1 - chance, num_tokens));
  even.pairs = num_tokens * shape.top_k / holders;
  double none = 1;  // chance that a token chooses none of so many experts
  for (int k = 0; k < shape.top_k; ++k) {
    none *= std::max(0.0, 1 - even.slots / std::max(1, shape.num_experts - k));
  }
  even.rows = num_tokens * (1 - none);
  std::vector<double> bytes = even.holds;
  for (double& each : bytes) {
    each *= even.touched * shape.num_moe_layers() * static_cast<double>(shape.expert_bytes);
  }
  for (const int rank : ranks.coordinators()) {
    bytes[static_cast<size_t>(rank)] += own_step_bytes(shape, options.size);
  }
  even.cached = ranks.cached_shares(bytes);
  return even;
}

// Reading and computing are joined by a curve of degree one, so these shares of its derivative add
// up to it exactly at the even spread.
void add_expert_rates(const ModelShape& shape, const RankMap& ranks, const EvenSpread& even,
                      LayerTerms& terms) {
  const OpWork each = expert_work(shape, 1, 1);
  for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
    const OpCost& cost = ranks.device(rank).cost(OpKind::kExperts, experts_are_narrow(shape));
    OpCost curve = cost;  // of degree one
    curve.fixed_us = curve.piece_us = curve.value_ns = 0;
    const double share = even.cached[static_cast<size_t>(rank)];
    const double read_us = curve.us({.bytes = each.bytes}, share);
    const double compute_us = curve.us({.operations = each.operations});
    const double reading = even.touched * read_us, computing = even.pairs * compute_us;
    const double both = curve.us(expert_work(shape, even.touched, even.pairs), share);
    const double p = cost.sharpness - 1;
    terms.expert_fixed_us.push_back(cost.fixed_us);
    terms.touched_us.push_back(cost.piece_us +
                               read_us * (both > 0 ? std::pow(reading / both, p) : 1));
    terms.row_us.push_back(cost.value_ns / 1e3 * each.values +
                           compute_us * (both > 0 ? std::pow(computing / both, p) : 1));
  }
}

// Scales the links' times to what they add to an exchange at the even spread, of `count` rows or
// results to each rank that holds experts; returns what its start adds.
double scale_to_exchange(const RankMap& ranks, std::vector<LinkTerm>& links,
                         std::vector<double> LinkTerm::*us, const EvenSpread& even, double count) {
  std::vector<double> counts = even.holds;
  for (double& each : counts) each *= count;
  const double link_us = busiest_link(links, us, counts).us;
  double start = 0, total = 0, sharpness = 1;
  for (const int rank : ranks.coordinators()) {
    const double with_bytes = ranks.exchange_us(rank, ranks.longest_latency_us(), link_us,
                                                even.cached[static_cast<size_t>(rank)]);
    if (with_bytes < total) continue;
    total = with_bytes;
    start = ranks.exchange_us(rank) + ranks.longest_latency_us();
    sharpness = ranks.crosses_network() ? 1 : ranks.device(rank).exchange_sharpness;
  }
  if (link_us <= 0 || start <= 0) return total;
  const double start_part = start * std::pow(start / total, sharpness - 1);
  for (LinkTerm& link : links) {
    for (double& each : link.*us) each *= (total - start_part) / link_us;
  }
  return start_part;
}

void add_exchange_rates(const RankMap& ranks, const EvenSpread& even, LayerTerms& terms) {
  const double results = terms.adds_results ? even.rows : even.pairs;
  terms.exchange_us =
      scale_to_exchange(ranks, terms.dispatch_links, &LinkTerm::row_us, even, even.rows) +
      scale_to_exchange(ranks, terms.combine_links, &LinkTerm::result_us, even, results);
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
  for (int rank = 1; rank < num_ranks(); ++rank) {
    for (const LinkUse& use : route(0, rank)) crosses_network_ |= crosses_nodes(use);
  }
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

double RankMap::exchange_us(int rank, double latency_us, double link_us,
                            double cached_share) const {
  const DeviceSpec& spec = device(rank);
  const double peers = std::max(1, num_ranks() - 1);
  const double start = exchange_us(rank) + latency_us;
  const double links = link_us * (1 + spec.exchange_tail / peers) *
                       (cached_share + (1 - cached_share) * spec.exchange_uncached);
  return crosses_network_ ? start + links : spec.exchange_total_us(start, links);
}

std::vector<double> RankMap::cached_shares(std::span<const double> step_bytes) const {
  std::map<std::pair<int, int>, double> of_package;
  // A GPU's caches are its own.
  const auto place = [&](int rank) {
    return is_gpu(rank) ? std::pair{-1 - rank, 0} : std::pair{part(rank).node, part(rank).package};
  };
  for (int rank = 0; rank < num_ranks(); ++rank) {
    of_package[place(rank)] += step_bytes[static_cast<size_t>(rank)];
  }
  std::vector<double> shares;
  for (int rank = 0; rank < num_ranks(); ++rank) {
    shares.push_back(device(rank).cached_share(of_package[place(rank)]));
  }
  return shares;
}

double RankMap::longest_latency_us() const {
  double longest = 0;
  for (const int coordinator : coordinators_) {
    for (int rank = 0; rank < num_ranks(); ++rank) {
      longest = std::max(longest, latency_us(coordinator, rank));
    }
  }
  return longest;
}

BusiestLink busiest_link(const std::vector<LinkTerm>& links, std::vector<double> LinkTerm::*us,
                         const std::vector<double>& count) {
  BusiestLink most;
  for (size_t i = 0; i < links.size(); ++i) {
    const std::vector<double>& each = links[i].*us;
    double sum = 0;
    for (size_t rank = 0; rank < each.size(); ++rank) sum += each[rank] * count[rank];
    if (sum > most.us) most = {sum, static_cast<int>(i)};
  }
  return most;
}

LayerTerms link_terms(const ModelShape& shape, const RankMap& ranks,
                      const LayerTermsOptions& options) {
  LayerTerms terms;
  terms.num_tokens = options.size.num_tokens * static_cast<double>(ranks.coordinators().size());
  terms.adds_results = options.adds_results;
  LinkTerms dispatch(ranks, true), combine(ranks, false);
  for (const int coordinator : ranks.coordinators()) {
    for (int rank = 0; rank < ranks.num_ranks(); ++rank) {
      dispatch.add(coordinator, rank, row_bytes(shape, ranks.is_gpu(rank)));
      combine.add(coordinator, rank, result_bytes(shape, ranks.is_gpu(rank)));
    }
  }
  terms.dispatch_links = dispatch.take();
  terms.combine_links = combine.take();
  return terms;
}

LayerTerms layer_terms(const ModelShape& shape, const RankMap& ranks,
                       const LayerTermsOptions& options) {
  LayerTerms terms = link_terms(shape, ranks, options);
  const EvenSpread even = even_spread(shape, ranks, options, terms.num_tokens);
  add_expert_rates(shape, ranks, even, terms);
  add_exchange_rates(ranks, even, terms);
  return terms;
}

}  // namespace colibri
