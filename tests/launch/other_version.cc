// A shared object with the door of libcolibri_cuda.so, of a version that never was.
#include "launch/cuda_backend.h"

extern "C" __attribute__((visibility("default"))) const colibri::CudaBackend*
colibri_cuda_backend() {
  static const colibri::CudaBackend backend{
      .abi = 4'000'000'000, .struct_bytes = sizeof(colibri::CudaBackend), .version = "9.9.9"};
  return &backend;
}
