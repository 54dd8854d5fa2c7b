#include <algorithm>
#include <cmath>
#include <map>

#include "topology/step_cost.h"

namespace colibri {
namespace {

bool differ(int a, int b) { return a >= 0 && b >= 0 && a != b; }

// Links that rows pass, in the order in which they are met, ascending by link and direction.
class LinkTerms {
 public:
  LinkTerms(const Cluster& cluster, size_t num_ranks) : cluster_(cluster), num_ranks_(num_ranks) {}

  void add(std::span<const LinkUse> way, size_t rank, double row_bytes, double result_bytes) {
    for (const LinkUse& use : way) {
      LinkTerm& term = term_of(use);
      const double us_per_byte = 1e-3 / cluster_.links[static_cast<size_t>(use.link)].gbps;
      term.row_us[rank] += row_bytes * us_per_byte;
      term.result_us[rank] += result_bytes * us_per_byte;
    }
  }

  std::vector<LinkTerm> taken() {
    std::vector<LinkTerm> terms;
    for (auto& [use, term] : terms_) terms.push_back(std::move(term));
    return terms;
  }

 private:
  LinkTerm& term_of(const LinkUse& use) {
    LinkTerm& term = terms_[{use.link, use.forward}];
    if (!term.name.empty()) return term;
    const ClusterLink& link = cluster_.links[static_cast<size_t>(use.link)];
    const ClusterPart& from = cluster_.parts[static_cast<size_t>(use.forward ? link.a : link.b)];
    const ClusterPart& to = cluster_.parts[static_cast<size_t>(use.forward ? link.b : link.a)];
    term.name = from.name + " > " + to.name + " (" + link.kind + ")";
    term.crosses_nodes = from.node != to.node;
    term.crosses_packages = term.crosses_nodes || differ(from.package, to.package);
    term.row_us.assign(num_ranks_, 0);
    term.result_us.assign(num_ranks_, 0);
    return term;
  }

  const Cluster& cluster_;
  size_t num_ranks_;
  std::map<std::pair<int, bool>, LinkTerm> terms_;
};

// The tangent of a rank's time at the mean rank. The curve (x^p + y^p)^(1/p) grows in proportion,
// so its two slopes times x and y add up to it.
void add_expert_terms(LayerTerms& terms, const OpCost& cost, const OpUse& mean, const OpUse& one) {
  const double reading = cost.gbps > 0 ? mean.bytes / (cost.gbps * 1e3) : 0;
  const double computing = cost.gops > 0 ? mean.operations / (cost.gops * 1e3) : 0;
  const double both = cost.us(mean.bytes, mean.operations) - cost.fixed_us;
  const auto slope = [&](double part) {
    return both > 0 ? std::pow(part / both, cost.sharpness - 1) : 0;
  };
  terms.expert_fixed_us.push_back(cost.fixed_us);
  terms.touched_us.push_back(cost.gbps > 0 ? one.bytes / (cost.gbps * 1e3) * slope(reading) : 0);
  terms.row_us.push_back(cost.gops > 0 ? one.operations / (cost.gops * 1e3) * slope(computing) : 0);
}

}  // namespace

LayerTerms layer_terms(const ModelShape& shape, const StepFormats& formats, const StepSize& step,
                       const StepRanks& ranks) {
  const size_t num_ranks = ranks.parts.size(), num_coordinators = ranks.coordinators.size();
  LayerTerms terms;
  terms.num_tokens = step.num_tokens;
  const size_t holders = num_coordinators < num_ranks ? num_ranks - num_coordinators : num_ranks;
  const double pairs = step.num_tokens * shape.top_k / static_cast<double>(holders);
  const double share = static_cast<double>(shape.top_k) / std::max(1, shape.num_experts);
  const double touched = shape.num_experts / static_cast<double>(holders) *
                         (share < 1 ? -std::expm1(step.num_tokens * std::log1p(-share)) : 1);
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    add_expert_terms(terms, ranks.device(rank).cost(OpKind::kExperts, formats.has_narrow_experts),
                     expert_op(shape, formats, touched, pairs), expert_op(shape, formats, 1, 1));
  }
  const ClusterRoutes routes(ranks.cluster, ranks.parts);
  LinkTerms out(ranks.cluster, num_ranks), back(ranks.cluster, num_ranks);
  const double source_share = 1 / static_cast<double>(num_coordinators);
  double latency = 0, start = 0;
  for (const int source : ranks.coordinators) {
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      const auto from = static_cast<size_t>(source);
      out.add(routes.between(from, rank), rank, formats.row_bytes * source_share, 0);
      back.add(routes.between(rank, from), rank, 0, formats.result_bytes * source_share);
      latency = std::max(latency, routes.latency_us(from, rank));
    }
  }
  for (size_t rank = 0; rank < num_ranks && num_ranks > 1; ++rank) {
    start = std::max(start, ranks.device(rank).exchange_start_us(static_cast<int>(num_ranks) - 1));
  }
  terms.dispatch_links = out.taken();
  terms.combine_links = back.taken();
  terms.exchange_us = 2 * (start + latency);
  return terms;
}

}  // namespace colibri
