// Which device each rank computes on: --device, agreed on by all ranks before anything is loaded.
#pragma once

#include <functional>
#include <string>

#include "launch/chosen_device.h"
#include "launch/cuda_backend.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"

namespace colibri {

// --device as text: "cpu", "cuda", "cuda:N".
struct DeviceRequest {
  bool is_cuda = false;
  int ordinal = -1;  // -1: colibri chooses
};
// kInput for anything else.
DeviceRequest parse_device(const std::string& text);

// Called by all ranks together, also for the CPU: one message there and back a rank. Opens
// libcolibri_cuda.so only where --device asks for it; reads no GPU memory. Throws one and the same
// AgreedError everywhere: those of open_cuda_backend, require_gpu and choose_gpus, kInput naming
// two ranks when not all ask for the same backend, and kUnsupported naming the ranks without NCCL
// where --transport nccl wants it. With --transport auto rank 0 says who lacks it.
ChosenDevice choose_device(const CommonOptions& options, RankContext& context);

// The same with another way to open the backend and to name this machine, for tests.
struct DeviceSources {
  std::function<const CudaBackend&()> open_backend;
  std::string node;
};
ChosenDevice choose_device(const CommonOptions& options, RankContext& context,
                           const DeviceSources& sources);

}  // namespace colibri
