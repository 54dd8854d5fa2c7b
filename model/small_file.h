// Small text files of a checkpoint directory, and what a wrong download looks like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace colibri {

// The whole file. Fails with kInput naming it when it is not there, not a regular file, or larger
// than `max_bytes`; `what_for` says in the message what it holds.
std::string read_small_file(const std::filesystem::path& path, uint64_t max_bytes,
                            std::string_view what_for);

// What a file is that should be something else, by its first bytes: a git-lfs pointer or an HTML
// page, with what to do. Empty if it is neither.
std::string describe_wrong_content(std::string_view first_bytes);

}  // namespace colibri
