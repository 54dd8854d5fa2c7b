#include "nccl_state.h"

#include <cstdio>

namespace colibri_sim {

int tag_of(const IdContents& id, WireKind kind) {
  constexpr int kFirst = 1 << 30, kKinds = 4, kMaxRanks = 1 << 15;
  const int communicator = (id.creator % kMaxRanks) * kMaxIds + id.number % kMaxIds;
  return kFirst + communicator * kKinds + static_cast<int>(kind);
}

std::string CommState::name() const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(num_ranks);
}

void CommState::fail(ncclResult_t result, const std::string& text) {
  std::fprintf(stderr, "simulated NCCL: %s: %s\n", name().c_str(), text.c_str());
  if (async != ncclSuccess && async != ncclInProgress) return;
  async = result;
  last_error = text;
}

std::string type_name(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "int8";
    case ncclUint8:
      return "uint8";
    case ncclInt32:
      return "int32";
    case ncclUint32:
      return "uint32";
    case ncclInt64:
      return "int64";
    case ncclUint64:
      return "uint64";
    case ncclFloat16:
      return "float16";
    case ncclFloat32:
      return "float32";
    case ncclFloat64:
      return "float64";
    case ncclBfloat16:
      return "bfloat16";
    case ncclFloat8e4m3:
      return "float8e4m3";
    case ncclFloat8e5m2:
      return "float8e5m2";
    case ncclNumTypes:
      break;
  }
  return "no type";
}

size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclNumTypes:
      break;
  }
  return 0;
}

}  // namespace colibri_sim
