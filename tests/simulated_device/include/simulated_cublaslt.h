// The algorithms of the simulated cuBLASLt, and how a test chooses among them. What each of them
// does to a column's sum is what the real library's may do:
//   kByDepth          an order drawn from k alone: the same for every column and every n
//   kByDepthVector    the same order, for operands aligned to 16 bytes, leading dimensions too
//   kSplitDepth       four slices of k added at last: another order, the same for every column and
//                     n; wants a workspace of four results
//   kByShape          an order drawn from (m, n, k)
//   kByColumn         kByDepth's order for the first column, others for the others
//   kLastColumn       kByDepth's order but for the last column
//   kByDepthWide      kByDepth's order; wants the alignment that the preference declares, 256
//                     bytes when it declares none
#pragma once

#include <cstdint>
#include <vector>

namespace colibri_sim {

enum class LtAlgorithm : uint32_t {
  kByDepth,
  kByDepthVector,
  kSplitDepth,
  kByShape,
  kByColumn,
  kLastColumn,
  kByDepthWide,
};
inline constexpr uint32_t kNumLtAlgorithms = 7;

// Heuristics offer only these from now on; an empty list offers all again.
void offer_lt_algorithms(const std::vector<LtAlgorithm>& algorithms);

}  // namespace colibri_sim
