// The coordinator's own tensors: everything but the routed experts.
#pragma once

#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "model/checkpoint.h"
#include "model/matrix_loads.h"

namespace colibri {

// A vector of f32 where the backend reads it; data() is null when it is empty.
class WeightVector {
 public:
  WeightVector() = default;
  WeightVector(const std::vector<float>& values, const Backend& backend);

  const float* data() const { return memory_.as<float>(); }
  size_t size() const { return memory_.size_bytes() / sizeof(float); }
  bool empty() const { return size() == 0; }

 private:
  Buffer memory_;
};

struct GroupedQueryWeights {
  OwnedMatrix q, k, v, o;
  WeightVector q_bias, k_bias, v_bias, o_bias;  // empty: none
  WeightVector q_norm, k_norm;                  // empty: none
};

// The projections of latent attention in absorbed form, heads split where the forward pass needs
// them apart. nope, rope, v: head dimensions; C = kv_lora_rank.
struct LatentWeights {
  OwnedMatrix q_a;  // [q_lora, H]; empty when there is one q projection
  WeightVector q_a_norm, q_a_bias, kv_a_bias;
  OwnedMatrix q_nope;      // [heads * nope, q_lora or H]
  OwnedMatrix q_rope;      // [heads * rope, q_lora or H]
  OwnedMatrix kv_a;        // [C + rope, H]
  WeightVector kv_a_norm;  // [C]
  OwnedMatrix k_up;        // [heads * C, nope]: head h is the transpose of its key rows of kv_b
  OwnedMatrix v_up;        // [heads * v, C]
  OwnedMatrix o;           // [H, heads * v]
  WeightVector o_bias;
};

struct MlpWeights {
  OwnedMatrix gate, up, down;
};

struct LayerWeights {
  WeightVector attention_norm, mlp_norm;
  GroupedQueryWeights grouped;
  LatentWeights latent;
  OwnedMatrix router;        // [E, H] f32
  WeightVector router_bias;  // [E] or empty
  MlpWeights dense, shared;  // empty where the layer has none
  WeightVector shared_gate;  // [H] or empty
};

struct CoordinatorWeights {
  OwnedMatrix embedding;  // [V, H]
  OwnedMatrix lm_head;    // empty when tied
  WeightVector final_norm;
  std::vector<LayerWeights> layers;

  const MatrixView& head() const { return lm_head.view.empty() ? embedding.view : lm_head.view; }
};

// Called with the bytes just read.
using BytesRead = std::function<void(uint64_t)>;

// Reads them all, large ones with every thread of the backend's pool, and leaves them where the
// backend computes; on the way a layer's lie in host memory. Errors as Checkpoint::read;
// kEnvironment when memory ends.
CoordinatorWeights load_coordinator_weights(const Checkpoint& checkpoint,
                                            const WeightFormats& formats, const Backend& backend,
                                            const BytesRead& on_bytes);

}  // namespace colibri
