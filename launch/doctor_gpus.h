// What `colibri doctor` says about GPUs.
#pragma once

#include <functional>
#include <string>

#include "launch/cuda_backend.h"
#include "topology/system_checks.h"

namespace colibri {

// Opens libcolibri_cuda.so; a missing one, a missing driver and a missing GPU are advice, not
// errors. The first checks are always the same; a line for each GPU and one for their links follow.
std::string gpu_report(const std::function<const CudaBackend&()>& open_backend);

// One line as doctor prints it: "ok   name   value" or "fix  name   value: what to do".
std::string check_line(const SystemCheck& check);

}  // namespace colibri
