// Whether there is a cuBLASLt to multiply with. A real build opens it when it is first asked for
// instead of linking it (hundreds of megabytes), so that libcolibri_cuda.so starts, with its own
// kernels, on a machine that has a driver and nothing else. Needs no CUDA.
#pragma once

#include <string>

namespace colibri::cuda {

// "" when cublasLt's functions can be called, else why not. Found by the loader's own search, then
// in $CUDA_PATH and /usr/local/cuda. Thread safe.
const std::string& cublaslt_problem();

}  // namespace colibri::cuda
