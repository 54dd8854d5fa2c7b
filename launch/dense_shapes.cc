#include "launch/dense_shapes.h"

#include <algorithm>

#include "model/tensor_names.h"

namespace colibri {
namespace {

bool is_head(TensorRole role, const ModelConfig& config) {
  return role == (config.tied_embeddings ? TensorRole::kEmbedding : TensorRole::kLmHead);
}

// Roles that Linear multiplies as one matrix. The parts of latent attention that are taken by heads
// go through products of their own.
bool is_multiplied_whole(TensorRole role, const ModelConfig& config) {
  const bool is_expert =
      std::find(std::begin(kExpertRoles), std::end(kExpertRoles), role) != std::end(kExpertRoles);
  if (is_expert || is_always_f32(role)) return false;
  if (role == TensorRole::kEmbedding) return config.tied_embeddings;
  return role != TensorRole::kLatentKvB;
}

// Of the projection of all heads only the part without rotation is one matrix.
int64_t rows_of(const TensorKey& key, const TensorRange& range, const ModelConfig& config) {
  const bool is_split = key.role == TensorRole::kLatentQ || key.role == TensorRole::kLatentQB;
  return is_split ? config.attention.num_heads * config.attention.qk_nope_head_dim : range.rows;
}

void add(const DenseShape& shape, std::vector<DenseShape>& shapes) {
  const auto same = std::find_if(shapes.begin(), shapes.end(), [&](const DenseShape& other) {
    return other.n == shape.n && other.k == shape.k;
  });
  if (same == shapes.end()) {
    shapes.push_back(shape);
  } else {
    same->max_tokens = std::max(same->max_tokens, shape.max_tokens);
  }
}

}  // namespace

std::vector<DenseShape> dense_shapes(const Checkpoint& checkpoint, const WeightFormats& formats,
                                     int64_t max_tokens, int64_t max_head_rows) {
  const ModelConfig& config = checkpoint.config();
  std::vector<DenseShape> shapes;
  for (const TensorKey& key : tensor_keys(config)) {
    if (!is_multiplied_whole(key.role, config)) continue;
    const TensorRange range = checkpoint.range(key);
    if (range.rows <= 1 || kept_dtype(key.role, range.dtype, formats) != DType::kBF16) continue;
    add({.n = rows_of(key, range, config),
         .k = range.cols,
         .dtype = DType::kBF16,
         .max_tokens = is_head(key.role, config) ? max_head_rows : max_tokens},
        shapes);
  }
  return shapes;
}

}  // namespace colibri
