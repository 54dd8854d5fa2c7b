#include "tests/support/sparse_model.h"

#include <vector>

#include "model/tensor_names.h"
#include "tests/support/model_files.h"

namespace colibri {
namespace {

struct Shard {
  std::string header = "{";
  uint64_t data_bytes = 0;
};

// Writes the headers and lets ftruncate make the rest.
class SparseWriter {
 public:
  SparseWriter(const std::filesystem::path& dir, uint64_t shard_bytes)
      : dir_(dir), shard_bytes_(shard_bytes) {}

  void add(const WantedTensor& tensor, const std::string& dtype, uint64_t value_bytes) {
    uint64_t bytes = value_bytes;
    std::string shape;
    for (const int64_t size : tensor.shape) {
      bytes *= static_cast<uint64_t>(size);
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    }
    if (shards_.empty() || shards_.back().data_bytes > shard_bytes_) shards_.emplace_back();
    Shard& shard = shards_.back();
    if (shard.data_bytes > 0) shard.header += ',';
    shard.header += '"' + tensor.name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
                    R"(],"data_offsets":[)" + std::to_string(shard.data_bytes) + ',' +
                    std::to_string(shard.data_bytes + bytes) + "]}";
    shard.data_bytes += bytes;
    if (!map_.empty()) map_ += ',';
    map_ += '"' + tensor.name + "\":\"" + file_name(shards_.size() - 1) + '"';
  }

  void finish() {
    for (size_t i = 0; i < shards_.size(); ++i) {
      const auto path = dir_ / file_name(i);
      const std::string head = with_header_length(shards_[i].header + "}");
      write_file(path, head);
      std::filesystem::resize_file(path, head.size() + shards_[i].data_bytes);
    }
    write_file(dir_ / "model.safetensors.index.json", R"({"weight_map": {)" + map_ + "}}");
  }

 private:
  static std::string file_name(size_t shard_idx) {
    return "model-" + std::to_string(shard_idx) + ".safetensors";
  }

  std::filesystem::path dir_;
  uint64_t shard_bytes_;
  std::vector<Shard> shards_;
  std::string map_;
};

}  // namespace

void write_sparse(const std::filesystem::path& dir, const std::string& config_json, bool packed,
                  uint64_t shard_bytes) {
  write_file(dir / "config.json", config_json);
  SparseWriter writer(dir, shard_bytes);
  const ModelConfig config = parse_model_config(config_json, "sparse");
  for (const WantedTensor& tensor : wanted_tensors(config, packed)) writer.add(tensor, "BF16", 2);
  writer.finish();
}

void write_sparse_fp8(const std::filesystem::path& dir, const std::string& config_json,
                      uint64_t shard_bytes) {
  write_file(dir / "config.json", config_json);
  SparseWriter writer(dir, shard_bytes);
  const ModelConfig config = parse_model_config(config_json, "sparse");
  for (const WantedTensor& tensor : wanted_tensors(config, false)) {
    if (tensor.name.find("_proj") == std::string::npos) {
      writer.add(tensor, "BF16", 2);
      continue;
    }
    writer.add(tensor, "F8_E4M3", 1);
    WantedTensor scales{scale_name(tensor.name), tensor.shape};
    for (int64_t& size : scales.shape) size = (size + kScaleBlock - 1) / kScaleBlock;
    writer.add(scales, "F32", 4);
  }
  writer.finish();
}

std::string qwen3_235b_json() {
  return R"({"model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1536,
    "norm_topk_prob": true, "vocab_size": 151936, "max_position_embeddings": 40960,
    "rope_theta": 1000000.0, "torch_dtype": "bfloat16"})";
}

std::string deepseek_v3_json() {
  return R"({"model_type": "deepseek_v3", "torch_dtype": "bfloat16",
    "max_position_embeddings": 163840, "rope_scaling": {"type": "yarn", "factor": 40,
    "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096}})";
}

std::string deepseek_v3_fp8_json() {
  std::string config = deepseek_v3_json();
  return config.insert(config.rfind('}'), R"(, "quantization_config": {
    "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
    "weight_block_size": [128, 128]})");
}

}  // namespace colibri
