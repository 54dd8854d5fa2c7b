// The part of NVTX that colibri calls. Ranges stand in order_log() (simulated_control.h).
#pragma once

extern "C" {
// Depth of the range that begins or ends, from 0; negative: there is none.
int nvtxRangePushA(const char* message);
int nvtxRangePop(void);
}
