// Files that a test makes for the code that reads them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace colibri {

// Writes `text` to `name` below `folder`, its folders made as needed, and returns the path.
inline std::filesystem::path write_file(const TempDir& folder, const std::string& name,
                                        const std::string& text) {
  const std::filesystem::path path = folder / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace colibri
