// How many results a rank may send back in a step whose messages have fixed sizes: enough for what
// was seen lately and a little more, so that few steps have to run again. Pure: no clock, no I/O.
#pragma once

#include <cstdint>
#include <vector>

namespace colibri {

// Steps whose messages have fixed sizes.
struct FixedCapacity {
  int64_t max_tokens = 0;  // largest T of such a step; 0: none
  int first_share = 32;    // room for results in the first steps, in 32nds of all that could come
};

class ReturnCapacity {
 public:
  ReturnCapacity(int num_layers, int64_t top_k, int first_share = kShares);

  // Results that one rank returns in `layer` for steps of num_tokens tokens: all that could come up
  // to kAlwaysFits tokens, else a bucket. The same until observe() has seen reason to change.
  int32_t of(int layer, int64_t num_tokens) const;

  // The most results that a rank had in `layer` in a step of num_tokens tokens. A step that did not
  // fit raises the capacity at once; kPatience steps far below it lower it.
  void observe(int layer, int64_t num_tokens, int64_t num_results);

  static constexpr int64_t kAlwaysFits = 4;
  // Raised whenever a capacity changes.
  uint64_t version() const { return version_; }

  static constexpr int kPatience = 256;
  static constexpr int kShares = 32;

 private:
  // Of the results that could come, in 32nds: 1..32.
  struct Layer {
    int share = kShares;
    int highest_seen = 0;  // since `steps` began
    int steps = 0;
  };
  int share_with_room(int seen) const;
  void change(Layer& layer, int share);

  int64_t top_k_;
  std::vector<Layer> layers_;
  uint64_t version_ = 0;
};

}  // namespace colibri
