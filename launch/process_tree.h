// Ending all processes below this one, whatever group or state they are in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace colibri {

// From now on orphans below this process become its children, so that none can get away.
void adopt_orphans();

// All living processes below this one, zombies not counted.
std::vector<pid_t> descendants();

// Kills all of them, stopped ones too, and reaps; returns when none is left or after `timeout_ms`.
void kill_descendants(int64_t timeout_ms);

}  // namespace colibri
