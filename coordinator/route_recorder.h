// Writes every choice of a run to a file (--record-routes).
#pragma once

#include <filesystem>
#include <vector>

#include "base/model_shape.h"
#include "coordinator/route_observer.h"
#include "topology/route_file.h"

namespace colibri {

class RouteRecorder : public RouteObserver {
 public:
  // Makes the file under a temporary name. Errors: kInput when it cannot be made.
  RouteRecorder(const std::filesystem::path& path, const ModelShape& shape)
      : writer_(path, route_file_header(shape)) {}

  // kEnvironment when the disk is full.
  void on_routes(int layer, const Batch& batch, std::span<const int32_t> expert_ids,
                 std::span<const float> weights) override;

  // Ends the file and gives it its name. Without this nothing is left of it.
  void commit() { writer_.commit(); }

 private:
  RouteFileWriter writer_;
  int last_layer_ = -1;
  std::vector<RouteToken> tokens_;  // of the step
};

}  // namespace colibri
