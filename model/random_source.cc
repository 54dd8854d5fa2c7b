#include "model/random_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "base/mix.h"
#include "base/quantised.h"
#include "model/fingerprint.h"
#include "model/tensor_match.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

constexpr int64_t kTableValues = 1 << 20;  // about; a table stays in a nearby cache

enum class Fill : uint8_t { kRandom, kOnes, kZeros };

Fill fill_of(TensorRole role, const WantedShape& shape) {
  if (!shape.is_vector) return Fill::kRandom;
  const std::string name = to_string(role);
  return name.find("norm") != std::string::npos ? Fill::kOnes : Fill::kZeros;
}

// What all matrices of one form and width are stretches of. Whole units only: a panel of a
// quantised form, else a row.
class Table {
 public:
  Table(DType dtype, int64_t cols, Fill fill, uint64_t seed)
      : rows_(std::max<int64_t>(1, kTableValues / cols / kPanelRows) * kPanelRows),
        unit_bytes_(is_quantised(dtype) ? panel_bytes(dtype, cols) : matrix_bytes(dtype, 1, cols)),
        memory_(static_cast<size_t>(matrix_bytes(dtype, rows_, cols))) {
    std::vector<float> wide(static_cast<size_t>(rows_ * cols));
    // Uniform in +-sqrt(3 / cols): variance 1 / cols.
    const float scale =
        fill == Fill::kRandom ? std::sqrt(3.0f / static_cast<float>(cols)) * 0x1p-31f : 0.0f;
    for (size_t i = 0; i < wide.size(); ++i) {
      const auto draw = static_cast<int32_t>(mix(seed + i) >> 32);
      wide[i] = fill == Fill::kOnes ? 1.0f : scale * static_cast<float>(draw);
    }
    store(dtype, cols, wide);
  }

  // A place to begin, one of the units.
  uint64_t start(uint64_t hash) const {
    const uint64_t units = memory_.size_bytes() / static_cast<size_t>(unit_bytes_);
    return hash % units * static_cast<uint64_t>(unit_bytes_);
  }

  // The table goes on for ever: it begins anew at its end.
  void read(uint64_t offset, uint64_t bytes, char* into) const {
    offset %= memory_.size_bytes();
    while (bytes > 0) {
      const uint64_t part = std::min<uint64_t>(bytes, memory_.size_bytes() - offset);
      std::memcpy(into, memory_.as<char>() + offset, part);
      into += part;
      bytes -= part;
      offset = 0;
    }
  }

 private:
  void store(DType dtype, int64_t cols, const std::vector<float>& wide) {
    if (is_quantised(dtype)) {
      check(quantise_matrix(dtype, wide.data(), rows_, cols, memory_.data()), "random weights");
    } else if (dtype == DType::kBF16) {
      std::transform(wide.begin(), wide.end(), memory_.as<uint16_t>(), float_to_bf16);
    } else {
      std::memcpy(memory_.data(), wide.data(), wide.size() * sizeof(float));
    }
  }

  int64_t rows_, unit_bytes_;
  Buffer memory_;
};

class RandomSource : public TensorSource {
 public:
  RandomSource(const ModelConfig& config, const WeightFormats& formats, uint64_t seed)
      : formats_(formats), seed_(seed) {
    path_ = "random weights";
    config_ = config;
    config_.checkpoint_dtype = DType::kBF16;
    const ModelShape shape = model_shape(config_, formats, DType::kF32);
    config_.checkpoint_dtype = kept_dtype(TensorRole::kExpertGate, DType::kBF16, formats);
    config_.dense_dtype = kept_dtype(TensorRole::kO, DType::kBF16, formats);
    config_.wide_dtype = kept_dtype(TensorRole::kEmbedding, DType::kBF16, formats);
    add_roles(global_roles(config_), -1, 1);
    for (int layer = 0; layer < config_.num_layers; ++layer) {
      add_roles(layer_roles(config_, layer), layer, 1);
      if (config_.layer_is_moe[static_cast<size_t>(layer)]) {
        add_roles({std::begin(kExpertRoles), std::end(kExpertRoles)}, layer, config_.num_experts);
      }
    }
    Fingerprint hash;
    hash.add(shape.fingerprint);
    hash.add(to_string(formats.experts));
    hash.add(to_string(formats.dense));
    hash.add(seed);
    fingerprint_ = hash.hex();
  }

  std::optional<std::string> text(const std::string&) const override { return std::nullopt; }
  bool has(const TensorKey& key) const override { return roles_.count(role_key(key)) != 0; }

  TensorRange range(const TensorKey& key) const override {
    check(has(key), "no tensor for ", to_string(key.role), " of layer ", key.layer);
    const WantedShape shape = wanted_shape(config_, key.role);
    const DType dtype = dtype_of(key.role);
    const int table_idx = roles_.at(role_key(key));
    const Table& table = tables_[static_cast<size_t>(table_idx)];
    return {.name = std::string("random ") + to_string(key.role),
            .file_idx = table_idx,
            .offset_bytes = table.start(mix(seed_ ^ pack_key(key))),
            .size_bytes = static_cast<uint64_t>(matrix_bytes(dtype, shape.rows, shape.cols)),
            .dtype = dtype,
            .rows = shape.rows,
            .cols = shape.cols,
            .scales = {}};
  }

  void read(int file_idx, uint64_t offset_bytes, uint64_t size_bytes, void* into) const override {
    tables_[static_cast<size_t>(file_idx)].read(offset_bytes, size_bytes, static_cast<char*>(into));
  }

 private:
  // The key without its expert: those of a layer share table and presence.
  static uint64_t role_key(const TensorKey& key) { return pack_key({key.role, key.layer, -1}); }
  DType dtype_of(TensorRole role) const { return kept_dtype(role, DType::kBF16, formats_); }

  void add_roles(const std::vector<TensorRole>& roles, int layer, int64_t copies) {
    for (const TensorRole role : roles) {
      const WantedShape shape = wanted_shape(config_, role);
      const auto bytes =
          static_cast<uint64_t>(copies * matrix_bytes(dtype_of(role), shape.rows, shape.cols));
      roles_[pack_key({role, layer, -1})] = table_for(role, shape);
      summary_.total_bytes += bytes;
      if (copies > 1) summary_.expert_bytes += bytes;
      summary_.num_tensors += static_cast<int>(copies);
      const std::string dtype = to_string(dtype_of(role));
      auto& dtypes = summary_.dtypes;
      if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) dtypes.push_back(dtype);
    }
  }

  int table_for(TensorRole role, const WantedShape& shape) {
    const DType dtype = dtype_of(role);
    const Fill fill = fill_of(role, shape);
    const auto [found, is_new] =
        table_of_.emplace(std::tuple{dtype, shape.cols, fill}, static_cast<int>(tables_.size()));
    if (is_new) tables_.emplace_back(dtype, shape.cols, fill, mix(seed_ + tables_.size()));
    return found->second;
  }

  WeightFormats formats_;
  uint64_t seed_;
  std::vector<Table> tables_;
  std::map<std::tuple<DType, int64_t, Fill>, int> table_of_;
  std::map<uint64_t, int> roles_;  // by role_key: which table
};

}  // namespace

std::shared_ptr<const TensorSource> make_random_source(const ModelConfig& config,
                                                       const WeightFormats& formats,
                                                       uint64_t seed) {
  return std::make_shared<RandomSource>(config, formats, seed);
}

ModelConfig cut_layers(const ModelConfig& config, int num_layers, bool scale_vocab) {
  if (num_layers < 1 || num_layers > config.num_layers) {
    fail(ErrorKind::kInput, "--layers is ", num_layers, ", want 1 to ", config.num_layers);
  }
  const auto is_dense = [&](size_t layer) { return !config.layer_is_moe[layer]; };
  int64_t num_dense = 0;
  for (size_t l = 0; l < config.layer_is_moe.size(); ++l) num_dense += is_dense(l) ? 1 : 0;
  ModelConfig cut = config;
  cut.num_layers = num_layers;
  // Rounded up, but one layer is one with experts.
  const int64_t kept_dense = std::min<int64_t>(
      (num_dense * num_layers + config.num_layers - 1) / config.num_layers, num_layers - 1);
  cut.layer_is_moe.assign(static_cast<size_t>(num_layers), true);
  std::fill_n(cut.layer_is_moe.begin(), kept_dense, false);
  if (scale_vocab) {
    const int64_t scaled = config.vocab_size * num_layers / config.num_layers;
    cut.vocab_size = std::max<int64_t>(64, scaled / 64 * 64);
  }
  return cut;
}

}  // namespace colibri
