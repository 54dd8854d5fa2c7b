// Plans and EPLB's side by side, in the mean over seeds: for the tests and for the tables.
#pragma once

#include <string>
#include <vector>

#include "tests/topology/eplb.h"
#include "topology/cluster.h"
#include "topology/loads.h"

namespace colibri {

struct EplbCase {
  int num_experts = 0, num_gpus = 0, num_slots = 0;
  int num_nodes = 1, num_groups = 1;
  std::string name() const;
};
std::vector<EplbCase> eplb_cases();

// Loads are drawn by first, first + 1, ...
struct Seeds {
  int count = 20;
  uint64_t first = 0;
};

struct Pair {
  double ours = 0, theirs = 0;
};

// Of shuffled Zipf(s) loads; held out: planned by 32768 sampled tokens, scored by 32768 others.
struct BalanceScore {
  Pair balance, held_out, duplicates;
  double contiguous = 0;
  double worst_difference = 0;  // of one seed's balance
  double held_out_error = 0;    // standard error of the difference of means
  double gap = 0;               // to the printed bound
};
BalanceScore balance_score(const EplbCase& c, double s, Seeds seeds);

// Ranks on all GPUs of a machine, equal slots, one spare each; experts of DeepSeek-V3's sizes.
struct LinkCase {
  Cluster cluster;
  int num_nodes = 1;
  double batch = 0;
};
std::vector<LinkCase> link_cases();

struct LinkScore {
  // At a balance no worse than EPLB's: what crosses sockets or nodes, as time on those links.
  Pair balance, cross_us;
  // By the cost model alone: a layer's time, and what crosses then.
  Pair predicted_us;
  double planned_cross_us = 0, planned_balance = 0;
  double without_links_us = 0;  // planned as if links took no time
};
LinkScore link_score(const LinkCase& c, double s, Seeds seeds);

// Loads that `generate --record-loads` counted with configs/models/demo, from one text each.
inline constexpr int kDemoExperts = 16, kDemoLayers = 4;
ExpertLoads read_demo_loads(const std::string& path);

// Plans by some loads, scored by others of the same model; in the mean over its layers.
struct RecordedScore {
  Pair balance, held_out, duplicates;  // duplicates: of a layer
  // At no more tokens on any rank than EPLB's busiest has: what crosses the sockets of
  // two-socket-cpu, as time, by the held-out loads.
  Pair cross_us;
};
RecordedScore recorded_score(const ExpertLoads& loads, const ExpertLoads& held, int num_ranks,
                             int spare_slots);

}  // namespace colibri
