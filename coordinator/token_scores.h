// How likely a model thought tokens to be: natural logarithms of softmax probabilities under raw
// logits, before anything a request changes in them. Pure, in double, summed in ascending order of
// ids: the same logits give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace colibri {

struct TokenScore {
  int64_t position = 0;  // of the token in its text, the prompt included
  int32_t id = 0;
  double logprob = 0;
  std::vector<std::pair<int32_t, double>> top = {};  // most likely first, equal ones by id
};

// Of `id` under logits [V]. kInput when the logits are not all finite (damaged weights). Cost:
// O(V).
double log_probability(std::span<const float> logits, int32_t id);

// The same of several, for the cost of one.
std::vector<double> log_probabilities(std::span<const float> logits, std::span<const int32_t> ids);

// The same of `id` and of the `num_top` most likely, at most V. The caller sets the position.
TokenScore score_token(std::span<const float> logits, int32_t id, int num_top);

// What a closed set of texts says: each one's share among them.
struct ClosedSet {
  std::vector<double> probabilities;  // softmax of the log probabilities: their sum is 1
  double entropy = 0;                 // -sum p ln p, in nats
  double normalised_entropy = 0;      // the same over ln n: 0 certain, 1 all equal; 0 for n = 1
  size_t best = 0;                    // the first of the largest
};
// Of at least one log probability.
ClosedSet closed_set(std::span<const double> logprobs);

}  // namespace colibri
