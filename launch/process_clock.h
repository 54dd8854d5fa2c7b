// Time since this process was started by the system, not since main(): what a user waits for.
#pragma once

#include <string>

namespace colibri {

// Seconds, to the system's clock tick (10 ms); 0 where /proc is not there.
double seconds_since_process_start();

// The local date, "2026-12-31", for records.
std::string today();

}  // namespace colibri
