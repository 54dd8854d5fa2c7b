// Whether there is an NCCL to call. A real build opens it when it is first asked for instead of
// linking it (hundreds of megabytes), so that libcolibri_cuda.so starts on a machine that has a
// driver and nothing else. Needs no CUDA.
#pragma once

namespace colibri {

// Found by the loader's own search, then in $CUDA_PATH and /usr/local/cuda. Thread safe.
bool nccl_can_be_called();

}  // namespace colibri
