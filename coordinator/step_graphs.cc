#include "coordinator/step_graphs.h"

namespace colibri {

void StepGraphs::run(const Key& key, Stream& stream, const std::function<void()>& enqueue) {
  if (!is_warm_) {
    is_warm_ = true;
    return enqueue();
  }
  if (graphs_.size() > kMaxGraphs) graphs_.clear();
  std::unique_ptr<Graph>& graph = graphs_[key];
  if (!graph) graph = device_.capture(stream, enqueue);
  graph->enqueue(stream);
}

}  // namespace colibri
