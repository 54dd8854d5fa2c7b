// Conversions as tests ask for them.
#pragma once

#include <fstream>
#include <string>

#include "model/convert.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {

inline const std::filesystem::path kDemoDir =
    std::string(COLIBRI_SOURCE_DIR) + "/configs/models/demo";

inline ConversionOptions conversion(const std::filesystem::path& source,
                                    const std::filesystem::path& target, WeightFormat experts,
                                    WeightFormat dense = WeightFormat::kAsStored) {
  return {.source = source, .target = target, .formats = {experts, dense}};
}

inline ConversionResult convert_now(const ConversionOptions& options,
                                    const ConversionHooks& hooks = {}) {
  ThreadPool pool({.num_threads = 2, .spin = false});
  return convert_checkpoint(options, hooks, pool);
}

// The tiny model of tests/support with one shard a layer and one for the rest.
inline void write_sharded_tiny(const std::filesystem::path& dir) {
  std::vector<TestShard> shards = {
      {"rest.safetensors", {}}, {"layer0.safetensors", {}}, {"layer1.safetensors", {}}};
  for (TestTensor& tensor : test_tensors(parse_model_config(tiny_config_json(), "tiny"))) {
    size_t shard = 0;
    if (tensor.name.find(".layers.0.") != std::string::npos) shard = 1;
    if (tensor.name.find(".layers.1.") != std::string::npos) shard = 2;
    shards[shard].tensors.push_back(std::move(tensor));
  }
  write_shards(dir, shards);
  write_file(dir / "config.json", tiny_config_json());
}

inline int count_files(const std::filesystem::path& dir) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir)) ++count;
  return count;
}

// Only the target stands there: nothing of the conversion is left.
inline bool is_alone(const std::filesystem::path& target) {
  return std::filesystem::exists(target) &&
         !std::filesystem::exists(target.string() + ".partial") &&
         !std::filesystem::exists(target.string() + ".journal") &&
         !std::filesystem::exists(target.string() + ".source");
}

}  // namespace colibri
