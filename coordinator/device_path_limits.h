// How much room the path between devices takes. Internal to device_path.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinator/device_messages.h"
#include "coordinator/device_path.h"

namespace colibri {

// Ranks that the link reaches, but for its own.
std::vector<int> workers_of(const DeviceLink& link);

// Room for the fullest plan, of at most max_rows rows, however they fall on ranks, and for messages
// of fixed size.
DeviceMessages::Limits limits_of(const DevicePathParts& parts, int64_t max_rows);

// Choices of all layers of the largest step.
size_t step_choices(const DevicePathParts& parts);

}  // namespace colibri
