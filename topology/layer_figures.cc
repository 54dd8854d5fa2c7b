#include "topology/layer_figures.h"

#include <algorithm>
#include <cmath>

namespace colibri {
namespace {

constexpr double kAlmostSure = 1 - 1e-9;

}  // namespace

void RankSums::add(double q, double sign) {
  share += sign * q;
  log_none += sign * std::log1p(-std::min(q, kAlmostSure));
}

RowRule::RowRule(std::span<const double> shares, int top_k) : top_k_(top_k) {
  double squares = 0;
  for (const double p : shares) squares += p * p;
  // K experts of chance 1 leave nothing to correct.
  equal_experts_ = std::max(top_k_ + 1e-6, squares > 0 ? top_k_ * top_k_ / squares : top_k_);
  log_none_ = std::log1p(-std::min(top_k_ / equal_experts_, kAlmostSure));
}

double RowRule::chance(const RankSums& sums) const {
  if (sums.share <= 0) return 0;
  const double mass = sums.share / top_k_;
  double log_correction = -log_none_ * mass * equal_experts_;
  for (int j = 0; j < static_cast<int>(top_k_); ++j) {
    const double left = 1 - mass * equal_experts_ / std::max(equal_experts_ - j, 1e-6);
    log_correction += std::log(std::max(left, 1e-9));
  }
  const double none = std::exp(std::min(0.0, sums.log_none + std::min(0.0, log_correction)));
  double any = 1 - none;
  if (sums.pairs_by_chance > 0) {
    // Each pair saves rows as much as chance pairs do in the mean.
    const double saved_each = (sums.share - any) / sums.pairs_by_chance;
    any = sums.share - saved_each * sums.pairs;
  }
  const double least = std::min(1.0, sums.share) / top_k_;
  return std::clamp(any, least, std::min(1.0, sums.share));
}

LayerFigures layer_figures(const Placement& placement, int layer, std::span<const double> shares,
                           double num_tokens, std::span<const double> pair_share) {
  const auto num_ranks = static_cast<size_t>(placement.num_ranks());
  LayerFigures figures{.pairs = std::vector<double>(num_ranks),
                       .touched = std::vector<double>(num_ranks),
                       .rows = std::vector<double>(num_ranks)};
  double top_k = 0;
  for (const double p : shares) top_k += p;
  const RowRule rule(shares, static_cast<int>(std::lround(top_k)));
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    RankSums sums;
    const auto experts = placement.experts_of(layer, static_cast<int>(rank));
    const auto q_of = [&](int32_t expert) {
      return shares[static_cast<size_t>(expert)] /
             static_cast<double>(placement.slots_of(layer, expert).size());
    };
    for (size_t i = 0; i < experts.size(); ++i) {
      const double q = q_of(experts[i]);
      sums.add(q);
      figures.touched[rank] += 1 - std::pow(1 - std::min(q, 1.0), num_tokens);
      for (size_t j = 0; j < i && !pair_share.empty(); ++j) {
        const auto a = static_cast<size_t>(experts[i]), b = static_cast<size_t>(experts[j]);
        const double other = q_of(experts[j]);
        const double product = shares[a] * shares[b];
        if (product <= 0) continue;
        sums.pairs += pair_share[pair_index(a, b)] * q * other / product;
        sums.pairs_by_chance += q * other * (top_k - 1) / top_k;
      }
    }
    figures.pairs[rank] = num_tokens * sums.share;
    figures.rows[rank] = num_tokens * rule.chance(sums);
  }
  return figures;
}

std::vector<double> pair_shares(const ExpertLoads* loads, int layer) {
  std::vector<double> shares;
  if (loads == nullptr) return shares;
  double num_tokens = 0;
  for (const auto& layers : loads->phases) {
    const LayerLoads& of_layer = layers.at(static_cast<size_t>(layer));
    if (of_layer.num_tokens <= 0) continue;
    if (of_layer.pairs.empty()) return {};
    num_tokens += of_layer.num_tokens;
    shares.resize(of_layer.pairs.size());
    for (size_t i = 0; i < shares.size(); ++i) shares[i] += of_layer.pairs[i];
  }
  for (double& share : shares) share /= num_tokens;
  return shares;
}

}  // namespace colibri
