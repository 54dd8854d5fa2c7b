// Ranks in a message.
#pragma once

#include <span>
#include <string>

namespace colibri {

// "rank 2", "ranks 1 and 2", "ranks 1, 2 and 5"; "" for none.
inline std::string rank_list(std::span<const int> ranks) {
  if (ranks.empty()) return "";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace colibri
