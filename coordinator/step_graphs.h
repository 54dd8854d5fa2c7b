// Steps that were captured once and are replayed: on a GPU a launch a step instead of dozens a
// layer.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/device.h"

namespace colibri {

class StepGraphs {
 public:
  // What a step's work depends on besides what lies in the device's memory.
  struct Key {
    int64_t num_tokens = 0;
    int32_t max_position = 0;
    uint64_t path = 0;  // ExpertPath::graph_key()
    auto operator<=>(const Key&) const = default;
  };
  explicit StepGraphs(Device& device) : device_(device) {}

  // Replays the step of `key`, which `enqueue` enqueues when it is captured. The first step of all
  // is not captured: what is made on first use is made then.
  void run(const Key& key, Stream& stream, const std::function<void()>& enqueue);

 private:
  static constexpr size_t kMaxGraphs = 128;
  Device& device_;
  bool is_warm_ = false;
  std::map<Key, std::unique_ptr<Graph>> graphs_;
};

}  // namespace colibri
