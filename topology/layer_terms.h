// What one layer of a step costs as a function of where its experts lie: all that the planner looks
// at. Made from machine, shape and step by the cost model; plain numbers, so that plans can be
// tested against sums made by hand.
#pragma once

#include <string>
#include <vector>

namespace colibri {

// One direction of a link that rows pass.
struct LinkTerm {
  std::string name;               // "node0.cpu0 > node0.cpu1 (upi)"
  bool crosses_packages = false;  // its ends belong to different sockets, or to different nodes
  bool crosses_nodes = false;
  // [R] time on this link for one (token, rank) row sent to the rank, and for one result of the
  // rank (a (token, expert) pair; one a token with pre-added results). 0: does not pass here. With
  // several coordinators the mean over them.
  std::vector<double> row_us, result_us;
};

struct LayerTerms {
  double num_tokens = 0;      // T of a step, of all coordinators together
  bool adds_results = false;  // one pre-added result for each row instead of one for each pair
  // Of rank r: expert_fixed_us[r] + touched_us[r] * (its experts with at least one row)
  //                               + row_us[r] * (its rows of all experts: pairs)
  std::vector<double> expert_fixed_us, touched_us, row_us;  // [R]
  std::vector<LinkTerm> dispatch_links, combine_links;
  double exchange_us = 0;  // of both exchanges of a layer, whatever the placement
};

// Expected figures of one layer under a placement.
struct LayerFigures {
  std::vector<double> pairs;    // [R] (token, expert) pairs that the rank computes
  std::vector<double> touched;  // [R] its slots with at least one token
  std::vector<double> rows;     // [R] tokens that go to it
};

// expert_us: the slowest rank's; the links': the busiest link's of each direction.
struct LayerTime {
  double dispatch_us = 0, expert_us = 0, combine_us = 0, exchange_us = 0;
  int slowest_rank = 0, busiest_dispatch_link = -1, busiest_combine_link = -1;
  double total_us() const { return dispatch_us + expert_us + combine_us + exchange_us; }
};
LayerTime layer_time(const LayerTerms& terms, const LayerFigures& figures);

}  // namespace colibri
