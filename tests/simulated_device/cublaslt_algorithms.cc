#include "cublaslt_algorithms.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>

namespace colibri_sim {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kNumSlices = 4;

std::vector<LtAlgorithm>& offered() {
  static std::vector<LtAlgorithm> algorithms;
  return algorithms;
}

uint64_t mix(std::initializer_list<int64_t> values) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const int64_t value : values) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 29;
  }
  return hash;
}

template <class T>
void shuffle(std::vector<T>& values, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

// In which order the blocks of eight are taken, then the eight lanes added.
struct Order {
  Order(int64_t num_blocks, uint64_t seed) : blocks(static_cast<size_t>(num_blocks)) {
    std::iota(blocks.begin(), blocks.end(), int64_t{0});
    shuffle(blocks, seed);
    lanes.resize(kLanes);
    std::iota(lanes.begin(), lanes.end(), int64_t{0});
    shuffle(lanes, seed + 1);
  }
  std::vector<int64_t> blocks, lanes;
};

float sum_in(const Order& order, const float* a, const float* b) {
  std::array<float, kLanes> chain{};
  for (const int64_t block : order.blocks) {
    for (int64_t j = 0; j < kLanes; ++j) {
      chain[static_cast<size_t>(j)] += a[block * kLanes + j] * b[block * kLanes + j];
    }
  }
  float sum = 0;
  for (const int64_t lane : order.lanes) sum += chain[static_cast<size_t>(lane)];
  return sum;
}

float read_value(const LtOperand& operand, int64_t at) {
  if (operand.type == CUDA_R_32F) return static_cast<const float*>(operand.data)[at];
  const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(operand.data)[at]) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Vector `index` of length k along the sum, padded with zeros to whole blocks.
void read_vector(const LtOperand& operand, bool k_is_row, int64_t index, std::vector<float>& out,
                 int64_t k) {
  for (int64_t i = 0; i < k; ++i) {
    const int64_t at = k_is_row ? i + index * operand.ld : index + i * operand.ld;
    out[static_cast<size_t>(i)] = read_value(operand, at);
  }
}

// The orders that columns of one product use.
class Orders {
 public:
  explicit Orders(const LtProduct& p)
      : algorithm_(p.algorithm), n_(p.n), num_blocks_((p.k + kLanes - 1) / kLanes) {
    if (algorithm_ == LtAlgorithm::kByShape) {
      all_.emplace_back(num_blocks_, mix({p.m, p.n, p.k, 3}));
      return;
    }
    all_.emplace_back(num_blocks_, mix({p.k}));
    if (algorithm_ == LtAlgorithm::kLastColumn) all_.emplace_back(num_blocks_, mix({p.k, 5}));
    if (algorithm_ != LtAlgorithm::kByColumn) return;
    for (int64_t i = 1; i < kLanes; ++i) all_.emplace_back(num_blocks_, mix({p.k, 4, i}));
  }

  float sum(int64_t column, const float* a, const float* b) const {
    if (algorithm_ == LtAlgorithm::kSplitDepth) return sum_of_slices(a, b);
    size_t which = 0;
    if (algorithm_ == LtAlgorithm::kByColumn) which = static_cast<size_t>(column) % all_.size();
    if (algorithm_ == LtAlgorithm::kLastColumn) which = column + 1 == n_ ? 1 : 0;
    return sum_in(all_[which], a, b);
  }

 private:
  float sum_of_slices(const float* a, const float* b) const {
    float sum = 0;
    for (int64_t slice = 0; slice < kNumSlices; ++slice) {
      const int64_t begin = num_blocks_ * slice / kNumSlices * kLanes;
      const int64_t end = num_blocks_ * (slice + 1) / kNumSlices * kLanes;
      float part = 0;
      for (int64_t i = begin; i < end; ++i) part += a[i] * b[i];
      sum += part;
    }
    return sum;
  }

  LtAlgorithm algorithm_;
  int64_t n_, num_blocks_;
  std::vector<Order> all_;
};

}  // namespace

void offer_lt_algorithms(const std::vector<LtAlgorithm>& algorithms) { offered() = algorithms; }

std::vector<LtAlgorithm> lt_heuristic_order(int64_t m, int64_t n, int64_t k) {
  std::vector<LtAlgorithm> order = offered();
  if (order.empty()) {
    for (uint32_t i = 0; i < kNumLtAlgorithms; ++i) order.push_back(static_cast<LtAlgorithm>(i));
  }
  shuffle(order, mix({m, n, k}));
  return order;
}

int64_t lt_workspace_bytes(LtAlgorithm algorithm, int64_t m, int64_t n) {
  if (algorithm != LtAlgorithm::kSplitDepth) return 0;
  return m * n * kNumSlices * static_cast<int64_t>(sizeof(float));
}

void lt_multiply(const LtProduct& p) {
  const auto padded = static_cast<size_t>((p.k + kLanes - 1) / kLanes * kLanes);
  const Orders orders(p);
  std::vector<std::vector<float>> columns(static_cast<size_t>(p.n), std::vector<float>(padded));
  for (int64_t n = 0; n < p.n; ++n) {
    read_vector(p.b, !p.b.is_transposed, n, columns[static_cast<size_t>(n)], p.k);
  }
  std::vector<float> row(padded);
  for (int64_t m = 0; m < p.m; ++m) {
    read_vector(p.a, p.a.is_transposed, m, row, p.k);
    for (int64_t n = 0; n < p.n; ++n) {
      p.d[m + n * p.d_ld] = orders.sum(n, row.data(), columns[static_cast<size_t>(n)].data());
    }
  }
}

}  // namespace colibri_sim
