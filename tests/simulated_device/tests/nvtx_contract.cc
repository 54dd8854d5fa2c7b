// The part of NVTX that the simulated device has, compiled twice: see toolkit_contract.cc.
#include <nvtx3/nvToolsExt.h>

#include <type_traits>

static_assert(std::is_same_v<decltype(nvtxRangePushA("")), int>);
static_assert(std::is_same_v<decltype(nvtxRangePop()), int>);
