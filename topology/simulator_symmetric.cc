#include <algorithm>
#include <cmath>

#include "topology/simulator_layers.h"

namespace colibri {
namespace {

class Symmetric {
 public:
  explicit Symmetric(const StepRun& run)
      : run_(run),
        num_ranks_(run.ranks.parts.size()),
        ops_(coordinator_ops(run.shape, run.formats, run.step,
                             1 / static_cast<double>(run.ranks.parts.size()))),
        terms_(layer_terms(run.shape, run.formats, run.step, run.ranks)),
        out_us_(terms_.dispatch_links.size(), 0),
        back_us_(terms_.combine_links.size(), 0) {}

  SimulatedStep run() {
    FiguresOfLayers figures(run_, run_.step.num_tokens);
    for (int layer = 0; layer < run_.shape.num_layers; ++layer) {
      add(StepStage::kDense, slowest(ops_.dense));
      add(StepStage::kAttention, slowest(ops_.attention));
      add(StepStage::kElementwise, slowest(ops_.elementwise));
      if (!run_.shape.layer_is_moe[static_cast<size_t>(layer)]) continue;
      bool is_new = true;
      const LayerFigures& of_layer = figures.of(layer, is_new);
      if (is_new) time_ = time_of(of_layer);
      add_moe_layer();
    }
    add(StepStage::kHead, slowest(ops_.head));
    add(StepStage::kPicking, slowest(ops_.picking));
    name_busiest_link();
    return step_;
  }

 private:
  struct LayerUs {
    double dispatch = 0, experts = 0, combine = 0;
    int slowest_rank = 0;
    std::vector<double> out, back;  // of each link
  };

  void add(StepStage stage, double us) {
    step_.stage_us[static_cast<size_t>(stage)] += us;
    step_.total_us += us;
  }

  double slowest(const OpUse& use) const {
    double most = 0;
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      most = std::max(most, use.us(run_.ranks.device(rank)));
    }
    return most;
  }

  // Time of each link for `count` [R] rows or results.
  static std::vector<double> link_times(const std::vector<LinkTerm>& links,
                                        std::vector<double> LinkTerm::*us,
                                        const std::vector<double>& count) {
    std::vector<double> times;
    for (const LinkTerm& link : links) {
      double sum = 0;
      for (size_t rank = 0; rank < count.size(); ++rank) sum += (link.*us)[rank] * count[rank];
      times.push_back(sum);
    }
    return times;
  }

  double exchange_us(const std::vector<double>& link_us) const {
    const double most = link_us.empty() ? 0 : *std::max_element(link_us.begin(), link_us.end());
    return run_.ranks.device(0).exchange_total_us(terms_.exchange_us / 2,
                                                  most * exchange_tail_factor(run_.ranks));
  }

  LayerUs time_of(const LayerFigures& figures) const {
    LayerUs time;
    time.out = link_times(terms_.dispatch_links, &LinkTerm::row_us, figures.rows);
    time.back = link_times(terms_.combine_links, &LinkTerm::result_us,
                           run_.adds_results ? figures.rows : figures.pairs);
    time.dispatch = exchange_us(time.out);
    time.combine = exchange_us(time.back);
    for (size_t rank = 0; rank < num_ranks_; ++rank) {
      const double us =
          expert_op(run_.shape, run_.formats, figures.touched[rank], figures.pairs[rank])
              .us(run_.ranks.device(rank));
      if (us <= time.experts) continue;
      time.experts = us;
      time.slowest_rank = static_cast<int>(rank);
    }
    return time;
  }

  void add_moe_layer() {
    add(StepStage::kDispatch, time_.dispatch);
    add(StepStage::kOwnExperts, std::max(0.0, slowest(ops_.shared) - time_.dispatch));
    add(StepStage::kExperts, time_.experts);
    add(StepStage::kCombine, time_.combine + slowest(ops_.combine));
    step_.slowest_rank = time_.slowest_rank;
    for (size_t i = 0; i < out_us_.size(); ++i) out_us_[i] += time_.out[i];
    for (size_t i = 0; i < back_us_.size(); ++i) back_us_[i] += time_.back[i];
  }

  void name_busiest_link() {
    const auto look = [&](const std::vector<LinkTerm>& links, const std::vector<double>& us) {
      for (size_t i = 0; i < us.size(); ++i) {
        if (us[i] <= step_.busiest_link_us) continue;
        step_.busiest_link_us = us[i];
        step_.busiest_link = links[i].name;
      }
    };
    look(terms_.dispatch_links, out_us_);
    look(terms_.combine_links, back_us_);
  }

  const StepRun& run_;
  size_t num_ranks_;
  CoordinatorOps ops_;
  LayerTerms terms_;
  std::vector<double> out_us_, back_us_;
  LayerUs time_;
  SimulatedStep step_;
};

}  // namespace

SimulatedStep simulate_symmetric(const StepRun& run) { return Symmetric(run).run(); }

}  // namespace colibri
