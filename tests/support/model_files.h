// Makes checkpoints for tests: safetensors files byte by byte, whole tiny models, sparse giants,
// and copies of a fixture with another config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"
#include "model/config.h"

namespace colibri {

void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

// 8 bytes of length, then the header.
std::string with_header_length(std::string_view header);

struct TestTensor {
  std::string name;
  std::string dtype;  // as the format names it: "F32"
  std::vector<int64_t> shape;
  std::string bytes;
};
// `values` as f32 bytes.
std::string float_bytes(const std::vector<float>& values);
// A well-formed file.
std::string safetensors_image(const std::vector<TestTensor>& tensors);

struct TestShard {
  std::string file;
  std::vector<TestTensor> tensors;
};
// Writes the files and model.safetensors.index.json.
void write_shards(const std::filesystem::path& dir, const std::vector<TestShard>& shards);

// The tensors a configuration asks for, without bytes, in the order of the layers.
struct WantedTensor {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<WantedTensor> wanted_tensors(const ModelConfig& config, bool packed_experts);
// The same with f32 bytes: value i of tensor t is a small number that differs between tensors.
std::vector<TestTensor> test_tensors(const ModelConfig& config, bool packed_experts = false);

// A config.json of a small qwen3_moe with 2 layers, 3 experts, top-2, H 8, I 4, V 10.
std::string tiny_config_json();
// Writes config.json and model.safetensors of that model.
void write_tiny_model(const std::filesystem::path& dir);

// The repository's tests/data.
std::filesystem::path test_data_dir();

// One entry of tests/data/config_keys: a changed config.json and what transformers makes of it.
struct ConfigKeyCase {
  std::string model_type, key, base_dir;
  std::string config_json;  // patched
  std::string describe;     // patch and removed keys, for messages
  std::string outcome;      // "same", "different", "missing", "error"
  bool is_interface = false;
  std::vector<int> prompt_ids;
  std::vector<float> base_logits, logits;  // of the last position; logits: of "different"
  // eos ids that transformers takes from config.json alone; -1 alone when not recorded.
  std::vector<int> eos_ids{-1};
};
std::vector<ConfigKeyCase> config_key_cases(const std::string& family);
// Fills `dir` with links to the files of the base checkpoint and the patched config.json; may be
// called again for another case of the same family.
void write_config_key_case(const ConfigKeyCase& entry, const std::filesystem::path& dir);

}  // namespace colibri
