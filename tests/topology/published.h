// Times that others have published for single operations, and what the cost model says of them.
// Each table's constants come from a few of its rows, which are then not judged.
#pragma once

#include <string>
#include <vector>

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

std::vector<PublishedTable> published_experts();
std::vector<PublishedTable> published_exchanges();

}  // namespace colibri
