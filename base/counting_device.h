// A device that has no memory and does no work: it counts what it is asked for. What is built on it
// takes exactly what the same will take on a GPU, so a plan made that way is never out of date.
#pragma once

#include <memory>

#include "base/device.h"

namespace colibri {

// place() is kDevice. allocate() gives addresses that nobody may read, and never fails; staging
// memory is real. Copies, zeros, streams and events do nothing, and what was captured is nothing.
std::unique_ptr<Device> make_counting_device();

}  // namespace colibri
