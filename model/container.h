// .colibri files as checkpoints, and their checksums.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/container_format.h"
#include "model/tensor_source.h"

namespace colibri {

// The header and index at the front of the file, read and checked. Errors: as the parsers'.
ContainerIndex read_container_index(const std::filesystem::path& path);

// Opens the file: header, index and configuration are checked, and that the tensors are those that
// the configuration asks for. Weights are not read. Errors: as Checkpoint::open.
std::shared_ptr<const TensorSource> open_container(const std::filesystem::path& path);

// Reads every byte of texts and weights with all threads of `pool` and returns the names of those
// that differ from their checksums, in the order of the file. `on_bytes` is called by all threads.
// Errors: as read_container_index.
std::vector<std::string> damaged_parts(const std::filesystem::path& path, ThreadPool& pool,
                                       const std::function<void(uint64_t)>& on_bytes);

}  // namespace colibri
