#include <algorithm>
#include <map>

#include "topology/simulator_parts.h"

namespace colibri {
namespace {

class Symmetric {
 public:
  explicit Symmetric(const SimulatorInput& input)
      : in_(input),
        shape_(*input.shape),
        ranks_(*input.ranks),
        terms_(link_terms(shape_, ranks_, {.size = in_.size, .adds_results = in_.adds_results})),
        figures_(in_, terms_.num_tokens),
        cached_(cached_shares(in_, figures_)),
        latency_us_(ranks_.longest_latency_us()),
        rank_us_(static_cast<size_t>(ranks_.num_ranks())) {
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const OwnTimes own = own_times(shape_, in_.size, ranks_.device(rank), cached(rank));
      const double layer_us = own_.layer_us();
      if (own.layer_us() > layer_us) own_ = own;
      head_us_ = std::max(head_us_, own.head_us);
      start_us_ = std::max(start_us_, ranks_.exchange_us(rank) + latency_us_);
      counts_us_ = std::max(counts_us_, counts_us(in_, rank));
    }
  }

  SimulatedStep run() {
    std::vector<Layer> layers;
    for (size_t i = 0; i < figures_.num_distinct(); ++i) {
      layers.push_back(layer_of(figures_.at(static_cast<int>(i))));
    }
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      result_.dense_us += own_.dense_us;
      result_.context_us += own_.attention_us;
      result_.attention_us += own_.layer_us();
      const int index = figures_.index(layer);
      if (index >= 0) add(figures_.at(index), layers[static_cast<size_t>(index)]);
    }
    result_.head_us = head_us_;
    result_.step_us = result_.attention_us + result_.own_us + result_.dispatch_us +
                      result_.experts_us + result_.combine_us + result_.head_us;
    name_busiest();
    return result_;
  }

 private:
  struct Layer {
    double dispatch_us = 0, experts_us = 0, combine_us = 0;
    BusiestLink out, back;
    Travelling all;  // of all coordinators together
  };

  // Coordinators are alike.
  Travelling all_travelling(const LayerFigures& figures) const {
    Travelling all = travelling(in_, figures, 0, 1.0 / ranks_.num_ranks());
    for (auto* counts : {&all.rows, &all.results}) {
      for (double& count : *counts) count *= ranks_.num_ranks();
    }
    return all;
  }

  Layer layer_of(const LayerFigures& figures) const {
    Layer layer;
    layer.all = all_travelling(figures);
    layer.out = busiest_link(terms_.dispatch_links, &LinkTerm::row_us, layer.all.rows);
    layer.back = busiest_link(terms_.combine_links, &LinkTerm::result_us, layer.all.results);
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const auto exchange = [&](double link_us) {
        return ranks_.exchange_us(rank, latency_us_, link_us, cached(rank));
      };
      layer.dispatch_us =
          std::max(layer.dispatch_us, counts_us(in_, rank) + exchange(layer.out.us));
      layer.combine_us = std::max(layer.combine_us, exchange(layer.back.us));
      layer.experts_us = std::max(layer.experts_us, experts_us(figures, rank));
    }
    return layer;
  }

  double experts_us(const LayerFigures& figures, int rank) const {
    const auto at = static_cast<size_t>(rank);
    return expert_us(shape_, ranks_.device(rank), figures.touched[at], figures.pairs[at],
                     cached(rank));
  }
  double cached(int rank) const { return cached_[static_cast<size_t>(rank)]; }

  void add(const LayerFigures& figures, const Layer& layer) {
    result_.dispatch_us += layer.dispatch_us;
    // The shared expert runs from when rows go.
    result_.own_us += std::max(0.0, counts_us_ + own_.shared_us - layer.dispatch_us);
    result_.experts_us += layer.experts_us;
    result_.combine_us += layer.combine_us;
    result_.start_us += counts_us_ + 2 * start_us_;
    if (layer.out.link >= 0) {
      link_us_[terms_.dispatch_links[static_cast<size_t>(layer.out.link)].name] += layer.out.us;
    }
    if (layer.back.link >= 0) {
      link_us_[terms_.combine_links[static_cast<size_t>(layer.back.link)].name] += layer.back.us;
    }
    for (int rank = 0; rank < ranks_.num_ranks(); ++rank) {
      const auto at = static_cast<size_t>(rank);
      rank_us_[at] += experts_us(figures, rank);
      // A rank's own share of its rows stays.
      const double away = 1 - 1.0 / ranks_.num_ranks();
      result_.row_bytes += away * layer.all.rows[at] * row_bytes(shape_, ranks_.is_gpu(rank));
      result_.result_bytes +=
          away * layer.all.results[at] * result_bytes(shape_, ranks_.is_gpu(rank));
    }
  }

  void name_busiest() {
    for (const auto& [name, us] : link_us_) {
      if (us / result_.step_us <= result_.busiest_link_share) continue;
      result_.busiest_link = name;
      result_.busiest_link_share = us / result_.step_us;
    }
    const auto rank = std::max_element(rank_us_.begin(), rank_us_.end());
    result_.busiest_rank = static_cast<int>(rank - rank_us_.begin());
    result_.busiest_rank_share = *rank / result_.step_us;
  }

  const SimulatorInput& in_;
  const ModelShape& shape_;
  const RankMap& ranks_;
  LayerTerms terms_;
  FiguresOfLayers figures_;
  std::vector<double> cached_;  // [R]
  double latency_us_ = 0, start_us_ = 0, counts_us_ = 0, head_us_ = 0;
  OwnTimes own_;  // of the slowest rank
  std::vector<double> rank_us_;
  std::map<std::string, double> link_us_;  // of the busiest links
  SimulatedStep result_;
};

}  // namespace

SimulatedStep simulate_symmetric(const SimulatorInput& input) { return Symmetric(input).run(); }

}  // namespace colibri
