// Times that others have published for single operations, and what the cost model says of them.
// Each table's constants come from a few of its rows, which are then not judged.
#pragma once

#include <string>
#include <vector>

#include "topology/device_spec.h"

namespace colibri {

enum class RowUse : uint8_t {
  kFit,     // constants come from it
  kJudged,  // held against the bounds
  kShown,   // outside of what the model is for, for the reason its table gives
};

struct PublishedRow {
  std::string what;
  double published_us = 0, predicted_us = 0;
  RowUse use = RowUse::kJudged;
  double error() const { return predicted_us / published_us - 1; }
};

struct PublishedTable {
  std::string name, source, constants;  // which rows gave which numbers
  std::vector<PublishedRow> rows;
};

// What the tables' fitted rows give for a device of the catalogue; empty names are left out.
struct FittedDevice {
  std::string device, link;
  OpCost experts;  // narrow; fixed_us 0: no such table
  double exchange_us = 0, exchange_us_per_peer = 0, exchange_tail = 0, link_gbps = 0;
};
std::vector<FittedDevice> fitted_experts();
std::vector<FittedDevice> fitted_exchanges();

std::vector<PublishedTable> published_experts();
std::vector<PublishedTable> published_exchanges();

}  // namespace colibri
