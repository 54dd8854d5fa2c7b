// Checkpoints with the released shapes of large models, as sparse files that take no disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace colibri {

// The released config.json of each, as far as it is read.
std::string qwen3_235b_json();
std::string deepseek_v3_json();
std::string deepseek_v3_fp8_json();

// Writes config.json, shards of about `shard_bytes` of bf16 zeros, and their index.
void write_sparse(const std::filesystem::path& dir, const std::string& config_json, bool packed,
                  uint64_t shard_bytes);

// The same in the released FP8 form: projections and experts in FP8 with block scales, all zero.
void write_sparse_fp8(const std::filesystem::path& dir, const std::string& config_json,
                      uint64_t shard_bytes);

}  // namespace colibri
