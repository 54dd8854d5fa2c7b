// The coordinator's own tensors: everything but the routed experts.
#pragma once

#include <functional>
#include <vector>

#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "model/matrix_loads.h"

namespace colibri {

struct GroupedQueryWeights {
  OwnedMatrix q, k, v, o;
  std::vector<float> q_bias, k_bias, v_bias, o_bias;  // empty: none
  std::vector<float> q_norm, k_norm;                  // empty: none
};

// The projections of latent attention in absorbed form, heads split where the forward pass needs
// them apart. nope, rope, v: head dimensions; C = kv_lora_rank.
struct LatentWeights {
  OwnedMatrix q_a;  // [q_lora, H]; empty when there is one q projection
  std::vector<float> q_a_norm, q_a_bias, kv_a_bias;
  OwnedMatrix q_nope;            // [heads * nope, q_lora or H]
  OwnedMatrix q_rope;            // [heads * rope, q_lora or H]
  OwnedMatrix kv_a;              // [C + rope, H]
  std::vector<float> kv_a_norm;  // [C]
  OwnedMatrix k_up;  // [heads * C, nope]: head h is the transpose of its key rows of kv_b
  OwnedMatrix v_up;  // [heads * v, C]
  OwnedMatrix o;     // [H, heads * v]
  std::vector<float> o_bias;
};

struct MlpWeights {
  OwnedMatrix gate, up, down;
};

struct LayerWeights {
  std::vector<float> attention_norm, mlp_norm;
  GroupedQueryWeights grouped;
  LatentWeights latent;
  OwnedMatrix router;              // [E, H] f32
  std::vector<float> router_bias;  // [E] or empty
  MlpWeights dense, shared;        // empty where the layer has none
  std::vector<float> shared_gate;  // [H] or empty
};

struct CoordinatorWeights {
  OwnedMatrix embedding;  // [V, H]
  OwnedMatrix lm_head;    // empty when tied
  std::vector<float> final_norm;
  std::vector<LayerWeights> layers;

  const MatrixView& head() const { return lm_head.view.empty() ? embedding.view : lm_head.view; }
};

// Called with the bytes just read.
using BytesRead = std::function<void(uint64_t)>;

// Reads them all, large ones with every thread of `pool`. Errors as Checkpoint::read; kEnvironment
// when memory ends.
CoordinatorWeights load_coordinator_weights(const Checkpoint& checkpoint,
                                            const WeightFormats& formats, ThreadPool& pool,
                                            const BytesRead& on_bytes);

}  // namespace colibri
