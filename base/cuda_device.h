// One GPU as a Device. Built into libcolibri_cuda.so; the header needs no CUDA.
#pragma once

#include <memory>

#include "base/device.h"

namespace colibri {

// GPU `ordinal` of this process (0 is the first visible one) becomes the calling thread's current
// device. Fails with kEnvironment when there is none of this number.
std::unique_ptr<Device> make_cuda_device(int ordinal);

}  // namespace colibri
