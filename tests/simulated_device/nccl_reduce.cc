#include "nccl_reduce.h"

#include <algorithm>
#include <cstdint>

namespace colibri_sim {
namespace {

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  if (op == ncclMin) return std::min(a, b);
  if (op == ncclMax) return std::max(a, b);
  return static_cast<T>(a + b);
}

template <class T>
void reduce_as(const std::vector<const void*>& inputs, void* out, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    T value = static_cast<const T*>(inputs[0])[i];
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      value = combine(value, static_cast<const T*>(inputs[rank])[i], op);
    }
    static_cast<T*>(out)[i] = value;
  }
}

}  // namespace

bool can_reduce(ncclDataType_t type, ncclRedOp_t op) {
  const bool is_known = type == ncclInt32 || type == ncclUint32 || type == ncclInt64 ||
                        type == ncclUint64 || type == ncclFloat32;
  return is_known && (op == ncclMin || op == ncclMax || op == ncclSum);
}

void reduce_ranks(const std::vector<const void*>& inputs, void* out, size_t count,
                  ncclDataType_t type, ncclRedOp_t op) {
  if (type == ncclInt32) reduce_as<int32_t>(inputs, out, count, op);
  if (type == ncclUint32) reduce_as<uint32_t>(inputs, out, count, op);
  if (type == ncclInt64) reduce_as<int64_t>(inputs, out, count, op);
  if (type == ncclUint64) reduce_as<uint64_t>(inputs, out, count, op);
  if (type == ncclFloat32) reduce_as<float>(inputs, out, count, op);
}

}  // namespace colibri_sim
