// The simulated device's stand-in is linked.
#include "transport/nccl_library.h"

namespace colibri {

bool nccl_can_be_called() { return true; }

}  // namespace colibri
