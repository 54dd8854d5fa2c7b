// What each family calls the tensor of a role, and which shape it must have. Experts come in two
// forms: split (three matrices an expert) and packed (two tensors a layer).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint.h"
#include "model/config.h"

namespace colibri {

struct WantedShape {
  int64_t rows = 0, cols = 0;
  bool is_vector = false;  // rows is 1 and the file holds [cols]
};

// The shape of a role under `config`; experts: of one expert.
WantedShape wanted_shape(const ModelConfig& config, TensorRole role);

// Roles outside the layers, and of one layer without its routed experts, in a fixed order.
std::vector<TensorRole> global_roles(const ModelConfig& config);
std::vector<TensorRole> layer_roles(const ModelConfig& config, int layer);
inline constexpr TensorRole kExpertRoles[] = {TensorRole::kExpertGate, TensorRole::kExpertUp,
                                              TensorRole::kExpertDown};

// Every tensor of a model, layer by layer, an expert's three one after the other.
std::vector<TensorKey> tensor_keys(const ModelConfig& config);

// How a release names router and experts of a layer.
struct MoeNaming {
  const char* block;  // "mlp" or "block_sparse_moe"
  const char *gate, *up, *down;
};
// In the order to try; the first is the one that messages use.
std::span<const MoeNaming> moe_namings(std::string_view family);

// "model.layers.3."
std::string layer_prefix(int layer);
// Any role but the routed experts'. `naming` matters for the router only.
std::string tensor_name(std::string_view family, TensorRole role, int layer,
                        const MoeNaming& naming);
std::string split_expert_name(const MoeNaming& naming, TensorRole role, int layer, int expert);
// "...experts.gate_up_proj" for gate and up, "...experts.down_proj" for down.
std::string packed_expert_name(const MoeNaming& naming, TensorRole role, int layer);

// Why a tensor that no role asks for may be left out: a layer after the last one, a saved
// rotary_emb.inv_freq, an empty tensor. Empty if it may not.
std::string reason_to_ignore(std::string_view name, bool has_elements, const ModelConfig& config);

// Whether FP8 with block scales is read for this role: projections, experts and the output head.
bool may_be_fp8(TensorRole role);
// The tensor that holds an FP8 weight's block scales: "...weight_scale_inv".
inline constexpr std::string_view kScaleSuffix = "_scale_inv";
std::string scale_name(std::string_view weight_name);

// Why a tensor of this name cannot be read at all: parts of quantised forms. Empty if it can.
std::string quantised_form(std::string_view name);

}  // namespace colibri
