#include "topology/layer_terms.h"

#include <cstddef>

namespace colibri {
namespace {

// The busiest of `links`, [R] figures against [R] times of each.
int busiest(const std::vector<LinkTerm>& links, std::vector<double> LinkTerm::*us,
            const std::vector<double>& count, double& most) {
  int which = -1;
  for (size_t i = 0; i < links.size(); ++i) {
    double sum = 0;
    const std::vector<double>& each = links[i].*us;
    for (size_t rank = 0; rank < each.size(); ++rank) sum += each[rank] * count[rank];
    if (sum <= most) continue;
    most = sum;
    which = static_cast<int>(i);
  }
  return which;
}

}  // namespace

LayerTime layer_time(const LayerTerms& terms, const LayerFigures& figures) {
  LayerTime time;
  for (size_t rank = 0; rank < figures.pairs.size(); ++rank) {
    if (figures.touched[rank] == 0) continue;
    const double us = terms.expert_fixed_us[rank] + terms.touched_us[rank] * figures.touched[rank] +
                      terms.row_us[rank] * figures.pairs[rank];
    if (us <= time.expert_us) continue;
    time.expert_us = us;
    time.slowest_rank = static_cast<int>(rank);
  }
  time.busiest_dispatch_link =
      busiest(terms.dispatch_links, &LinkTerm::row_us, figures.rows, time.dispatch_us);
  time.busiest_combine_link =
      busiest(terms.combine_links, &LinkTerm::result_us,
              terms.adds_results ? figures.rows : figures.pairs, time.combine_us);
  time.exchange_us = terms.exchange_us;
  return time;
}

}  // namespace colibri
