// The one symbol of libcolibri_cuda.so.
#include "base/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "launch/cuda_backend.h"
#include "launch/run_config.h"
#include "topology/probe_cuda.h"

extern "C" __attribute__((visibility("default"))) const colibri::CudaBackend*
colibri_cuda_backend() {
  static const colibri::CudaBackend backend{.struct_bytes = sizeof(colibri::CudaBackend),
                                            .version = colibri::kVersion,
                                            .kind = COLIBRI_CUDA_KIND,
                                            .probe_gpus = colibri::probe_gpus,
                                            .read_gpu_memory = colibri::read_gpu_memory,
                                            .make_device = colibri::make_cuda_device,
                                            .make_ops = colibri::make_cuda_ops};
  return &backend;
}
