// What a verb tells its reader, as opposed to what it tells people on stderr.
#pragma once

#include <string>

namespace colibri {

// Writes all of `text` to stdout at once. Fails with kEnvironment when the reader is gone.
void write_out(const std::string& text);

}  // namespace colibri
