// Asks the CUDA runtime what GPUs there are. Built into libcolibri_cuda.so; the header needs no
// CUDA.
#pragma once

#include "topology/gpu.h"

namespace colibri {

// The GPUs that this process sees. Does not fail for want of one: `problem` says why. Touches no
// GPU's memory: a context costs hundreds of megabytes on each.
GpuProbe probe_gpus();

// Makes the GPU current for the calling thread and starts its context. Fails as cuda_check.
GpuMemory read_gpu_memory(int ordinal);

}  // namespace colibri
