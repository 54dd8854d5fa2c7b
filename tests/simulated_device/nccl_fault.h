// A planted fault of the simulated NCCL (include/simulated_nccl.h says how it is written).
#pragma once

#include <cstdint>
#include <string>

namespace colibri_sim {

enum class FaultKind : unsigned char { kNone, kError, kAbort, kSlow, kSilent };

struct NcclFault {
  FaultKind kind = FaultKind::kNone;
  int rank = -1;
  uint64_t op = 0;
  int64_t slow_ms = 0;
};

// The environment's, or the last that set_nccl_fault() gave.
NcclFault current_nccl_fault();

}  // namespace colibri_sim
