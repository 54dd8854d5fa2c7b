#include "tests/support/model_files.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

int64_t product(const std::vector<int64_t>& shape) {
  int64_t result = 1;
  for (const int64_t size : shape) result *= size;
  return result;
}

std::vector<int64_t> sizes_of(const WantedShape& shape) {
  if (shape.is_vector) return {shape.cols};
  return {shape.rows, shape.cols};
}

void add_experts(const ModelConfig& config, int layer, bool packed,
                 std::vector<WantedTensor>& tensors) {
  const MoeNaming& naming = moe_namings(config.family)[0];
  const int64_t e = config.num_experts, h = config.hidden_size, i = config.expert_width;
  if (packed) {
    tensors.push_back({packed_expert_name(naming, TensorRole::kExpertGate, layer), {e, 2 * i, h}});
    tensors.push_back({packed_expert_name(naming, TensorRole::kExpertDown, layer), {e, h, i}});
    return;
  }
  for (int expert = 0; expert < config.num_experts; ++expert) {
    for (const TensorRole role : kExpertRoles) {
      tensors.push_back(
          {split_expert_name(naming, role, layer, expert), sizes_of(wanted_shape(config, role))});
    }
  }
}

std::vector<int> ints_of(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_array()) return value.get<std::vector<int>>();
  return {value.get<int>()};
}

ConfigKeyCase read_case(const Json& document, const Json& base_config, const Json& entry) {
  ConfigKeyCase result;
  result.model_type = document.at("model_type");
  result.base_dir = (test_data_dir() / "models" / document.at("base").get<std::string>()).string();
  result.key = entry.at("key");
  result.outcome = entry.at("outcome");
  result.is_interface = entry.value("interface", false);
  Json config = base_config;
  for (const auto& [key, value] : entry.at("patch").items()) config[key] = value;
  for (const auto& key : entry.value("remove", Json::array())) config.erase(key.get<std::string>());
  result.config_json = config.dump(2);
  result.describe = result.model_type + " " + result.key + " patch " + entry.at("patch").dump();
  if (entry.contains("remove")) result.describe += " without " + entry.at("remove").dump();
  result.prompt_ids = document.at("prompt_ids").get<std::vector<int>>();
  result.base_logits = document.at("base_logits").get<std::vector<float>>();
  if (entry.contains("logits")) result.logits = entry.at("logits").get<std::vector<float>>();
  if (entry.contains("generation")) {
    result.eos_ids =
        ints_of(entry.at("generation").at("without_generation_config").at("eos_token_id"));
  }
  return result;
}

}  // namespace

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) fail(ErrorKind::kEnvironment, "cannot write ", path.string());
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::kEnvironment, "cannot read ", path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string with_header_length(std::string_view header) {
  std::string image;
  for (int i = 0; i < 8; ++i) image += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return image.append(header);
}

std::string float_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string safetensors_image(const std::vector<TestTensor>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const TestTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return with_header_length(header.dump()) + data;
}

void write_shards(const fs::path& dir, const std::vector<TestShard>& shards) {
  Json map = Json::object();
  for (const TestShard& shard : shards) {
    write_file(dir / shard.file, safetensors_image(shard.tensors));
    for (const TestTensor& tensor : shard.tensors) map[tensor.name] = shard.file;
  }
  write_file(dir / "model.safetensors.index.json", Json({{"weight_map", map}}).dump(1));
}

std::vector<WantedTensor> wanted_tensors(const ModelConfig& config, bool packed_experts) {
  std::vector<WantedTensor> tensors;
  const MoeNaming& naming = moe_namings(config.family)[0];
  const auto add = [&](TensorRole role, int layer) {
    tensors.push_back(
        {tensor_name(config.family, role, layer, naming), sizes_of(wanted_shape(config, role))});
  };
  for (const TensorRole role : global_roles(config)) add(role, -1);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const TensorRole role : layer_roles(config, layer)) add(role, layer);
    if (config.layer_is_moe[static_cast<size_t>(layer)]) {
      add_experts(config, layer, packed_experts, tensors);
    }
  }
  return tensors;
}

std::vector<TestTensor> test_tensors(const ModelConfig& config, bool packed_experts) {
  std::vector<TestTensor> tensors;
  for (const WantedTensor& wanted : wanted_tensors(config, packed_experts)) {
    std::vector<float> values(static_cast<size_t>(product(wanted.shape)));
    const auto first = static_cast<float>(tensors.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i) * 0x1p-10f;
    tensors.push_back({wanted.name, "F32", wanted.shape, float_bytes(values)});
  }
  return tensors;
}

std::string tiny_config_json() {
  return R"({"model_type": "qwen3_moe", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 6,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
    "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 4,
    "norm_topk_prob": true, "torch_dtype": "float32"})";
}

void write_tiny_model(const fs::path& dir) {
  write_file(dir / "config.json", tiny_config_json());
  const ModelConfig config = parse_model_config(tiny_config_json(), "tiny");
  write_file(dir / "model.safetensors", safetensors_image(test_tensors(config)));
}

fs::path test_data_dir() { return fs::path(COLIBRI_SOURCE_DIR) / "tests" / "data"; }

std::vector<ConfigKeyCase> config_key_cases(const std::string& family) {
  const fs::path path = test_data_dir() / "config_keys" / (family + ".json");
  const Json document = Json::parse(read_file(path));
  const fs::path base = test_data_dir() / "models" / document.at("base").get<std::string>();
  const Json base_config = Json::parse(read_file(base / "config.json"));
  std::vector<ConfigKeyCase> cases;
  for (const Json& entry : document.at("cases")) {
    cases.push_back(read_case(document, base_config, entry));
  }
  return cases;
}

void write_config_key_case(const ConfigKeyCase& entry, const fs::path& dir) {
  for (const auto& file : fs::directory_iterator(entry.base_dir)) {
    const fs::path name = file.path().filename();
    if (name == "config.json" || fs::exists(dir / name)) continue;
    fs::create_symlink(fs::absolute(file.path()), dir / name);
  }
  write_file(dir / "config.json", entry.config_json);
}

}  // namespace colibri
