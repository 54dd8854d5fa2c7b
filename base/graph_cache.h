// Work that was captured once and is replayed: on a GPU one launch instead of hundreds.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "base/device.h"

namespace colibri {

// Graphs that a cache holds at a time, at most; when there are more, all go.
inline constexpr size_t kMaxGraphs = 128;

// Key: what the work depends on besides what lies in the device's memory; ordered by <.
template <class Key>
class GraphCache {
 public:
  explicit GraphCache(Device& device) : device_(device) {}

  // Forgets all graphs, when an address in them no longer holds. None is being replayed.
  void clear() { graphs_.clear(); }

  // Replays the work of `key`, which enqueue() enqueues on `stream` when it is captured. The first
  // work of all is not captured: what is made on first use is made then.
  template <class Enqueue>
  void run(const Key& key, Stream& stream, const Enqueue& enqueue) {
    if (!std::exchange(is_warm_, true)) return enqueue();
    if (graphs_.size() >= kMaxGraphs && !graphs_.contains(key)) graphs_.clear();
    std::unique_ptr<Graph>& graph = graphs_[key];
    if (!graph) graph = device_.capture(stream, enqueue);
    graph->enqueue(stream);
  }

 private:
  Device& device_;
  bool is_warm_ = false;
  std::map<Key, std::unique_ptr<Graph>> graphs_;
};

}  // namespace colibri
