#include "model/tensor_role.h"

#include "base/error.h"

namespace colibri {

const char* to_string(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
      return "embedding";
    case TensorRole::kFinalNorm:
      return "final norm";
    case TensorRole::kLmHead:
      return "lm_head";
    case TensorRole::kAttentionNorm:
      return "attention norm";
    case TensorRole::kMlpNorm:
      return "mlp norm";
    case TensorRole::kQ:
      return "q";
    case TensorRole::kK:
      return "k";
    case TensorRole::kV:
      return "v";
    case TensorRole::kO:
      return "o";
    case TensorRole::kQBias:
      return "q bias";
    case TensorRole::kKBias:
      return "k bias";
    case TensorRole::kVBias:
      return "v bias";
    case TensorRole::kOBias:
      return "o bias";
    case TensorRole::kQNorm:
      return "q norm";
    case TensorRole::kKNorm:
      return "k norm";
    case TensorRole::kLatentQ:
      return "latent q";
    case TensorRole::kLatentQA:
      return "latent q_a";
    case TensorRole::kLatentQANorm:
      return "latent q_a norm";
    case TensorRole::kLatentQB:
      return "latent q_b";
    case TensorRole::kLatentQABias:
      return "latent q_a bias";
    case TensorRole::kLatentKvABias:
      return "latent kv_a bias";
    case TensorRole::kLatentKvA:
      return "latent kv_a";
    case TensorRole::kLatentKvANorm:
      return "latent kv_a norm";
    case TensorRole::kLatentKvB:
      return "latent kv_b";
    case TensorRole::kRouter:
      return "router";
    case TensorRole::kRouterBias:
      return "router selection bias";
    case TensorRole::kDenseGate:
      return "dense gate";
    case TensorRole::kDenseUp:
      return "dense up";
    case TensorRole::kDenseDown:
      return "dense down";
    case TensorRole::kSharedGate:
      return "shared gate";
    case TensorRole::kSharedUp:
      return "shared up";
    case TensorRole::kSharedDown:
      return "shared down";
    case TensorRole::kSharedExpertGate:
      return "shared expert's gate";
    case TensorRole::kExpertGate:
      return "expert gate";
    case TensorRole::kExpertUp:
      return "expert up";
    case TensorRole::kExpertDown:
      return "expert down";
  }
  return "unknown";
}

bool is_always_f32(TensorRole role) {
  switch (role) {
    case TensorRole::kFinalNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kQBias:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
    case TensorRole::kOBias:
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
    case TensorRole::kLatentQANorm:
    case TensorRole::kLatentQABias:
    case TensorRole::kLatentKvABias:
    case TensorRole::kLatentKvANorm:
    case TensorRole::kRouter:
    case TensorRole::kRouterBias:
    case TensorRole::kSharedExpertGate:
      return true;
    case TensorRole::kEmbedding:
    case TensorRole::kLmHead:
    case TensorRole::kQ:
    case TensorRole::kK:
    case TensorRole::kV:
    case TensorRole::kO:
    case TensorRole::kLatentQ:
    case TensorRole::kLatentQA:
    case TensorRole::kLatentQB:
    case TensorRole::kLatentKvA:
    case TensorRole::kLatentKvB:
    case TensorRole::kDenseGate:
    case TensorRole::kDenseUp:
    case TensorRole::kDenseDown:
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
    case TensorRole::kSharedDown:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown:
      return false;
  }
  fail(ErrorKind::kInternal, "TensorRole value ", static_cast<int>(role));
}

}  // namespace colibri
