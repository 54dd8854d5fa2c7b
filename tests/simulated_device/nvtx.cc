// NVTX's ranges of threads, as entries of the order log.
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "simulated_control.h"

namespace {

std::vector<std::string>& open_ranges() {
  thread_local std::vector<std::string> ranges;
  return ranges;
}

}  // namespace

int nvtxRangePushA(const char* message) {
  open_ranges().emplace_back(message);
  colibri_sim::log_order(colibri_sim::Order::kBeginRange, message);
  return static_cast<int>(open_ranges().size()) - 1;
}

int nvtxRangePop() {
  if (open_ranges().empty()) return -2;
  colibri_sim::log_order(colibri_sim::Order::kEndRange, open_ranges().back());
  open_ranges().pop_back();
  return static_cast<int>(open_ranges().size());
}
