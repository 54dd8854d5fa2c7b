// The device a rank computes on, as device_choice.h found it.
#pragma once

#include <vector>

#include "topology/gpu.h"

namespace colibri {

struct CudaBackend;

struct ChosenDevice {
  const CudaBackend* backend = nullptr;   // null: the CPU
  GpuInfo gpu = {};                       // this rank's, without `peers`; only with a backend
  std::vector<GpuInfo> gpu_of_rank = {};  // [R] on every rank; only with a backend
  // This rank's CPUs near its GPU; empty: nothing is known, or --bind inherit.
  std::vector<int> near_cpus = {};
  int numa_node = -1;  // of the GPU; -1: nothing is known
  // Rows travel over NCCL; the same on every rank.
  bool over_nccl = false;
  // Ranks for whose sake they do not although --transport auto would have it so.
  std::vector<int> ranks_without_nccl = {};

  bool is_cuda() const { return backend != nullptr; }
};

}  // namespace colibri
