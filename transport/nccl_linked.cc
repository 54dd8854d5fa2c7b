// The simulated device's stand-in is linked; it can be told not to be there.
#include <nccl.h>

#include "transport/nccl_library.h"

namespace colibri {

bool nccl_can_be_called() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess;
}

}  // namespace colibri
