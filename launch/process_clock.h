// Time since this process was started by the system, not since main(): what a user waits for.
#pragma once

namespace colibri {

// Seconds, to the system's clock tick (10 ms); 0 where /proc is not there.
double seconds_since_process_start();

}  // namespace colibri
