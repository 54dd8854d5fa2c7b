// The arrows between folders (docs/design.md, section 3), as rules over #include lines and CMake
// link lists.
#pragma once

#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace colibri {

// Every include of `file` that its folder may not have: "base/x.h:3: ..." each.
std::vector<std::string> include_faults(const SourceFile& file);

// Every colibri_<folder> that a folder's CMakeLists.txt names against the arrows.
std::vector<std::string> link_faults(const SourceFile& cmake_file);

}  // namespace colibri
