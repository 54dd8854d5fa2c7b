#include "tests/support/random_model.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/quantised.h"
#include "base/thread_pool.h"
#include "model/convert.h"
#include "model/matrix_loads.h"
#include "model/tensor_names.h"
#include "tests/support/model_files.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

// Uniform numbers in [middle - width, middle + width).
std::string random_bf16(int64_t count, float middle, float width, std::mt19937& random) {
  std::string bytes(static_cast<size_t>(2 * count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const float unit = static_cast<float>(random() >> 8) * 0x1p-23f - 1;
    const uint16_t bits = float_to_bf16(middle + unit * width);
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof bits);
  }
  return bytes;
}

std::vector<float> kept_values(const Checkpoint& checkpoint, const TensorKey& key,
                               const WeightFormats& formats) {
  ThreadPool pool({.num_threads = 1});
  const OwnedMatrix kept = load_matrix(checkpoint, key, formats, pool);
  const MatrixView& view = kept.view;
  std::vector<float> values(static_cast<size_t>(view.rows * view.cols));
  if (is_quantised(view.dtype)) {
    decode_matrix(view.dtype, view.data, view.rows, view.cols, values.data());
  } else {
    widen_to_float(view.dtype, view.data, values.size(), values.data());
  }
  return values;
}

// Packed experts are written split, under the names of the split form.
TestTensor f32_tensor(const ModelConfig& config, const TensorKey& key,
                      const std::vector<float>& values) {
  const WantedShape shape = wanted_shape(config, key.role);
  const MoeNaming& naming = moe_namings(config.family)[0];
  TestTensor tensor;
  tensor.name = key.expert >= 0 ? split_expert_name(naming, key.role, key.layer, key.expert)
                                : tensor_name(config.family, key.role, key.layer, naming);
  tensor.dtype = "F32";
  tensor.shape = shape.is_vector ? std::vector<int64_t>{shape.cols}
                                 : std::vector<int64_t>{shape.rows, shape.cols};
  tensor.bytes = float_bytes(values);
  return tensor;
}

// The model of `source` with other values, of which each tensor's are values_of(checkpoint, key).
template <class ValuesOf>
void write_model_as_f32(const fs::path& source, const ValuesOf& values_of, const fs::path& dir) {
  const Checkpoint checkpoint = Checkpoint::open(source);
  std::vector<TestTensor> tensors;
  for (const TensorKey& key : tensor_keys(checkpoint.config())) {
    tensors.push_back(f32_tensor(checkpoint.config(), key, values_of(checkpoint, key)));
  }
  auto config = nlohmann::json::parse(read_file(source / "config.json"));
  config.erase("quantization_config");
  write_file(dir / "config.json", config.dump());
  write_file(dir / "model.safetensors", safetensors_image(tensors));
}

}  // namespace

void write_random_model(const fs::path& dir, const std::string& config_json, uint32_t seed) {
  const ModelConfig config = parse_model_config(config_json, "made-up config.json");
  std::mt19937 random(seed);
  std::vector<TestTensor> tensors;
  for (const WantedTensor& want : wanted_tensors(config, false)) {
    const bool is_bias = want.name.ends_with("bias");
    const bool is_norm = want.shape.size() == 1 && !is_bias;
    const float width = is_bias   ? 0.3f
                        : is_norm ? 0.5f
                                  : 2.0f / std::sqrt(static_cast<float>(want.shape.back()));
    int64_t count = 1;
    for (const int64_t size : want.shape) count *= size;
    tensors.push_back(
        {want.name, "BF16", want.shape, random_bf16(count, is_norm ? 1.0f : 0.0f, width, random)});
  }
  write_file(dir / "config.json", config_json);
  write_file(dir / "model.safetensors", safetensors_image(tensors));
}

void write_decoded_model(const fs::path& source, const WeightFormats& formats,
                         const fs::path& dir) {
  write_model_as_f32(
      source,
      [&](const Checkpoint& checkpoint, const TensorKey& key) {
        return kept_values(checkpoint, key, formats);
      },
      dir);
}

void write_changed_model(const fs::path& source, const ChangeValues& change, const fs::path& dir) {
  write_model_as_f32(
      source,
      [&](const Checkpoint& checkpoint, const TensorKey& key) {
        std::vector<float> values = load_floats(checkpoint, key);
        change(key, values);
        return values;
      },
      dir);
}

void write_container(const fs::path& source, const WeightFormats& formats, const fs::path& target) {
  ThreadPool pool({.num_threads = 2});
  convert_checkpoint({.source = source, .target = target, .formats = formats}, {}, pool);
}

}  // namespace colibri
