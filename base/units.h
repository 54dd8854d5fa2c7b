// Numbers for people. 1 KB = 1000 bytes, 1 GB = 1e9 bytes.
#pragma once

#include <cstdint>
#include <string>

namespace colibri {

// "512 B", "1.50 MB", "12.3 GB", "640 GB": three digits from a kilobyte on.
std::string format_bytes(int64_t bytes);

// "4.2 s", "75 s", "12 min", "3 h": never more digits than a reader of a progress line wants.
std::string format_seconds(double seconds);

}  // namespace colibri
