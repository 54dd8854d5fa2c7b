#include "coordinator/weights.h"

#include <cstring>

#include "base/error.h"
#include "base/uploaded_array.h"

namespace colibri {
namespace {

// Moves a matrix in host memory to where the backend reads it.
OwnedMatrix place(OwnedMatrix loaded, const Backend& backend) {
  if (backend.device->place() == Place::kHost) return loaded;
  const MatrixView& view = loaded.view;
  if (is_quantised(view.dtype)) {
    backend.ops->pack_weights(view.dtype, view.rows, view.cols, loaded.memory.data());
  }
  const std::span bytes(loaded.memory.as<const char>(), loaded.memory.size_bytes());
  OwnedMatrix placed{uploaded(bytes, *backend.device, *backend.stream), view};
  placed.view.data = placed.memory.data();
  return placed;
}

// One layer's loader: remembers where it is, so that each tensor is one short line.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const WeightFormats& formats, const Backend& backend,
         const BytesRead& on_bytes)
      : checkpoint_(checkpoint), formats_(formats), backend_(backend), on_bytes_(on_bytes) {}

  void enter_layer(int layer) { layer_ = layer; }
  const ModelConfig& config() const { return checkpoint_.config(); }

  OwnedMatrix host_matrix(TensorRole role) const {
    OwnedMatrix loaded = load_matrix(checkpoint_, key(role), formats_, *backend_.pool);
    report(role);
    return loaded;
  }
  OwnedMatrix matrix(TensorRole role) const { return placed(host_matrix(role)); }
  OwnedMatrix placed(OwnedMatrix loaded) const { return place(std::move(loaded), backend_); }
  WeightVector floats(TensorRole role) const {
    const std::vector<float> loaded = load_floats(checkpoint_, key(role));
    report(role);
    return {loaded, backend_};
  }
  WeightVector floats_if(bool wanted, TensorRole role) const {
    return wanted ? floats(role) : WeightVector{};
  }
  bool has(TensorRole role) const { return checkpoint_.has(key(role)); }

 private:
  TensorKey key(TensorRole role) const { return {role, layer_, -1}; }
  void report(TensorRole role) const { on_bytes_(checkpoint_.range(key(role)).size_bytes); }

  const Checkpoint& checkpoint_;
  const WeightFormats& formats_;
  const Backend& backend_;
  const BytesRead& on_bytes_;
  int layer_ = -1;
};

OwnedMatrix make_matrix(DType dtype, int64_t rows, int64_t cols) {
  OwnedMatrix made;
  made.view = {nullptr, dtype, rows, cols};
  made.memory = Buffer(static_cast<size_t>(made.view.size_bytes()));
  made.view.data = made.memory.data();
  return made;
}

// Of each head's `per_head` rows takes [skip, skip + take): heads * take rows. Of a q8 or q4 matrix
// all three are multiples of kPanelRows (model_shape() sees to it).
OwnedMatrix take_head_rows(const OwnedMatrix& all, int64_t per_head, int64_t skip, int64_t take) {
  const int64_t heads = all.view.rows / per_head;
  OwnedMatrix part = make_matrix(all.view.dtype, heads * take, all.view.cols);
  auto* to = part.memory.as<char>();
  for (int64_t head = 0; head < heads; ++head) {
    const MatrixView from = all.view.slice_rows(head * per_head + skip, take);
    std::memcpy(to, from.data, static_cast<size_t>(from.size_bytes()));
    to += from.size_bytes();
  }
  return part;
}

template <class T>
void transpose_head(const T* from, int64_t rows, int64_t cols, T* to) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * rows + r] = from[r * cols + c];
  }
}

// [heads * n, C] -> [heads * C, n], each head transposed by itself.
OwnedMatrix transpose_heads(const OwnedMatrix& all, int64_t n) {
  const int64_t heads = all.view.rows / n, cols = all.view.cols;
  OwnedMatrix turned = make_matrix(all.view.dtype, heads * cols, n);
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t at = head * n * cols;
    if (all.view.dtype == DType::kF32) {
      transpose_head(all.memory.as<float>() + at, n, cols, turned.memory.as<float>() + at);
    } else {
      transpose_head(all.memory.as<uint16_t>() + at, n, cols, turned.memory.as<uint16_t>() + at);
    }
  }
  return turned;
}

GroupedQueryWeights load_grouped_query(const Loader& load) {
  const AttentionConfig& a = load.config().attention;
  GroupedQueryWeights w;
  w.q = load.matrix(TensorRole::kQ);
  w.k = load.matrix(TensorRole::kK);
  w.v = load.matrix(TensorRole::kV);
  w.o = load.matrix(TensorRole::kO);
  w.q_bias = load.floats_if(a.q_bias, TensorRole::kQBias);
  w.k_bias = load.floats_if(a.k_bias, TensorRole::kKBias);
  w.v_bias = load.floats_if(a.v_bias, TensorRole::kVBias);
  w.o_bias = load.floats_if(a.o_bias, TensorRole::kOBias);
  w.q_norm = load.floats_if(a.qk_norm != QkNorm::kNone, TensorRole::kQNorm);
  w.k_norm = load.floats_if(a.qk_norm != QkNorm::kNone, TensorRole::kKNorm);
  return w;
}

LatentWeights load_latent(const Loader& load) {
  const AttentionConfig& a = load.config().attention;
  const int64_t nope = a.qk_nope_head_dim, rope = a.qk_rope_head_dim;
  LatentWeights w;
  if (a.q_lora_rank > 0) {
    w.q_a = load.matrix(TensorRole::kLatentQA);
    w.q_a_norm = load.floats(TensorRole::kLatentQANorm);
    w.q_a_bias = load.floats_if(a.q_a_bias, TensorRole::kLatentQABias);
  }
  const OwnedMatrix q =
      load.host_matrix(a.q_lora_rank > 0 ? TensorRole::kLatentQB : TensorRole::kLatentQ);
  w.q_nope = load.placed(take_head_rows(q, nope + rope, 0, nope));
  w.q_rope = load.placed(take_head_rows(q, nope + rope, nope, rope));
  w.kv_a = load.matrix(TensorRole::kLatentKvA);
  w.kv_a_norm = load.floats(TensorRole::kLatentKvANorm);
  w.kv_a_bias = load.floats_if(a.kv_a_bias, TensorRole::kLatentKvABias);
  const OwnedMatrix kv_b = load.host_matrix(TensorRole::kLatentKvB);
  w.k_up = load.placed(transpose_heads(take_head_rows(kv_b, nope + a.v_head_dim, 0, nope), nope));
  w.v_up = load.placed(take_head_rows(kv_b, nope + a.v_head_dim, nope, a.v_head_dim));
  w.o = load.matrix(TensorRole::kO);
  w.o_bias = load.floats_if(a.o_bias, TensorRole::kOBias);
  return w;
}

void load_moe(const Loader& load, LayerWeights& w) {
  const ModelConfig& config = load.config();
  w.router = load.matrix(TensorRole::kRouter);
  w.router_bias = load.floats_if(config.router.selection_bias, TensorRole::kRouterBias);
  if (config.shared_width == 0) return;
  w.shared = {load.matrix(TensorRole::kSharedGate), load.matrix(TensorRole::kSharedUp),
              load.matrix(TensorRole::kSharedDown)};
  w.shared_gate = load.floats_if(config.shared_gate, TensorRole::kSharedExpertGate);
}

LayerWeights load_layer(const Loader& load, int layer) {
  const ModelConfig& config = load.config();
  LayerWeights w;
  w.attention_norm = load.floats(TensorRole::kAttentionNorm);
  w.mlp_norm = load.floats(TensorRole::kMlpNorm);
  if (config.attention.kind == AttentionKind::kLatent) {
    w.latent = load_latent(load);
  } else {
    w.grouped = load_grouped_query(load);
  }
  if (config.layer_is_moe[static_cast<size_t>(layer)]) {
    load_moe(load, w);
  } else {
    w.dense = {load.matrix(TensorRole::kDenseGate), load.matrix(TensorRole::kDenseUp),
               load.matrix(TensorRole::kDenseDown)};
  }
  return w;
}

}  // namespace

WeightVector::WeightVector(const std::vector<float>& values, const Backend& backend)
    : memory_(uploaded(std::span(values), *backend.device, *backend.stream)) {}

CoordinatorWeights load_coordinator_weights(const Checkpoint& checkpoint,
                                            const WeightFormats& formats, const Backend& backend,
                                            const BytesRead& on_bytes) {
  Loader load(checkpoint, formats, backend, on_bytes);
  CoordinatorWeights weights;
  weights.embedding = load.matrix(TensorRole::kEmbedding);
  weights.final_norm = load.floats(TensorRole::kFinalNorm);
  if (!checkpoint.config().tied_embeddings) weights.lm_head = load.matrix(TensorRole::kLmHead);
  for (int layer = 0; layer < checkpoint.config().num_layers; ++layer) {
    load.enter_layer(layer);
    weights.layers.push_back(load_layer(load, layer));
  }
  return weights;
}

}  // namespace colibri
