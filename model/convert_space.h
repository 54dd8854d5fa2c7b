// Whether the disk holds what a conversion writes, before it starts and while it runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/convert_plan.h"

namespace colibri {

// The most bytes that writing the blobs that are not `done` takes from the disk at any moment.
// `freed_bytes` is what removing each source file gives back once all blobs that read it are
// written; empty when none is removed.
uint64_t needed_bytes(const ConvertPlan& plan, const std::vector<bool>& done,
                      const std::vector<uint64_t>& freed_bytes);

// Bytes that the disk of `path`, which need not exist, has for this user.
uint64_t free_disk_bytes(const std::filesystem::path& path);

// Bytes that removing the file gives back to the disk of `beside`: 0 on another disk, or when the
// file has a second name.
uint64_t bytes_freed_by_removing(const std::filesystem::path& file,
                                 const std::filesystem::path& beside);

}  // namespace colibri
