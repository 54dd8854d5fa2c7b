// Small files of the kernel (/proc, /sys), whose size is not known before they are read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// At most the first 1 MiB; empty when the file cannot be read.
std::optional<std::string> read_text_file(const std::filesystem::path& path);

// The parts of `text` between `separator`s, empty ones too; they point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace colibri
