#include "coordinator/recent_values.h"

#include <algorithm>
#include <cmath>

namespace colibri {

RecentValues::RecentValues(size_t capacity, Clock::duration window)
    : window_(window), entries_(capacity) {}

void RecentValues::add(Clock::time_point at, double value) {
  const std::lock_guard lock(mutex_);
  entries_[num_added_++ % entries_.size()] = {at, value};
}

Percentiles RecentValues::percentiles(Clock::time_point now) const {
  std::vector<double> values;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < std::min(num_added_, entries_.size()); ++i) {
      if (now - entries_[i].at <= window_) values.push_back(entries_[i].value);
    }
  }
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<size_t>(place) - 1];
  };
  return {values.size(), at(0.5), at(0.99)};
}

}  // namespace colibri
