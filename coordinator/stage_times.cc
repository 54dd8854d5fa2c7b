#include "coordinator/stage_times.h"

namespace colibri {

const char* to_string(Stage stage) {
  switch (stage) {
    case Stage::kEmbed:
      return "embed";
    case Stage::kAttention:
      return "attention";
    case Stage::kDenseMlp:
      return "dense mlp";
    case Stage::kRouter:
      return "router";
    case Stage::kDispatch:
      return "dispatch";
    case Stage::kShared:
      return "shared expert";
    case Stage::kExperts:
      return "own experts";
    case Stage::kWait:
      return "wait for ranks";
    case Stage::kCombine:
      return "combine";
    case Stage::kHead:
      return "head";
  }
  return "unknown";
}

}  // namespace colibri
