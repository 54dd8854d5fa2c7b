#include "coordinator/stop_strings.h"

#include <algorithm>
#include <utility>

namespace colibri {
namespace {

// Length of the longest end of `text` that begins `stop`.
size_t overlap(const std::string& text, const std::string& stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
  }
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopStrings::push(const std::string& text) {
  if (stopped_) return "";
  held_ += text;
  size_t cut = std::string::npos, keep = 0;
  for (const std::string& stop : stops_) {
    cut = std::min(cut, held_.find(stop));
    keep = std::max(keep, overlap(held_, stop));
  }
  if (cut != std::string::npos) {
    stopped_ = true;
    held_.resize(cut);
    return std::exchange(held_, "");
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return certain;
}

std::string StopStrings::finish() { return std::exchange(held_, ""); }

}  // namespace colibri
