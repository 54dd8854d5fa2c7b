// What a machine refuses so that no reader has to: long files, dead code, silent tests.
#pragma once

#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace colibri {

// Each returns its faults as "path:line: what". Sources and headers unless said.

// More than 400 lines, in tests 500.
std::vector<std::string> length_faults(const SourceFile& file);
// A header without #pragma once, or with a conditional (#if, #ifdef, ...) outside kernels/cpu/.
std::vector<std::string> header_faults(const SourceFile& file);
// A note of work left without an issue number, as in TODO(#12); code behind #if 0; lines of code in
// comments; tests that do not run or skip without a reason.
std::vector<std::string> dead_text_faults(const SourceFile& file);
// A path of one person's machine. Documents and scripts too.
std::vector<std::string> machine_path_faults(const SourceFile& file);
// A source that no build file names, with or without its ending.
std::vector<std::string> unbuilt_faults(const std::vector<SourceFile>& sources,
                                        const std::vector<SourceFile>& build_files);

}  // namespace colibri
