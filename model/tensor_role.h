// Names for the tensors of a model that hold for every family.
#pragma once

#include <cstdint>

namespace colibri {

// What a tensor is for, whatever its family calls it. Layer and expert stand beside it.
enum class TensorRole : uint8_t {
  kEmbedding,  // [V, H]
  kFinalNorm,  // [H]
  kLmHead,     // [V, H]; the same range as the embedding when tied
  kAttentionNorm,
  kMlpNorm,  // [H]
  kQ,
  kK,
  kV,
  kO,  // grouped-query projections
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQNorm,
  kKNorm,
  kLatentQ,
  kLatentQA,
  kLatentQANorm,
  kLatentQB,  // latent attention; kLatentQ when q_lora_rank is 0
  kLatentQABias,
  kLatentKvABias,
  kLatentKvA,
  kLatentKvANorm,
  kLatentKvB,
  kRouter,
  kRouterBias,  // [E, H], [E] selection bias
  kDenseGate,
  kDenseUp,
  kDenseDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedExpertGate,
  kExpertGate,
  kExpertUp,
  kExpertDown,  // [I, H], [I, H], [H, I]
};
const char* to_string(TensorRole role);

// Norms, biases and routers: read in f32 whatever a file or the command line says.
bool is_always_f32(TensorRole role);

struct TensorKey {
  TensorRole role = TensorRole::kEmbedding;
  int layer = -1;
  int expert = -1;
};

}  // namespace colibri
