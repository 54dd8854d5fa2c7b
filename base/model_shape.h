// The numbers of a model that memory plans, placements and benchmarks need: filled by model/, read
// by topology/, so that neither folder needs the other. No names of tensors, no file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colibri {

struct ModelShape {
  std::string family;              // "qwen3_moe", ...
  std::string fingerprint;         // names this model in placement files; equal for equal shapes
  int num_layers = 0;              // L
  int64_t hidden_size = 0;         // H
  int num_experts = 0;             // E, the same in every MoE layer
  int top_k = 0;                   // K
  int64_t expert_width = 0;        // I
  int64_t vocab_size = 0;          // V
  std::vector<bool> layer_is_moe;  // [L]
  int64_t expert_bytes = 0;        // one expert of one layer as kept in memory: gate, up, down
  int64_t coordinator_weight_bytes = 0;  // all weights but the routed experts, as kept in memory
  int64_t kv_bytes_per_token = 0;        // all layers together, as kept in memory
  // What a step costs besides experts. A multiply-add is one operation here, two in GOP/s.
  int64_t head_bytes = 0;      // read once for all logits of a step (tied: the embedding)
  int64_t layer_bytes = 0;     // of the coordinator's weights: read once a step
  int64_t dense_macs = 0;      // a token: all products but experts, head and attention
  int64_t head_macs = 0;       // a row of logits
  int64_t attention_macs = 0;  // a token and a position it sees, all layers together
  int num_heads = 0;           // of queries
  // The shared experts' part of layer_bytes, and of dense_macs.
  int64_t shared_bytes = 0, shared_macs = 0;

  int64_t expert_macs() const { return 3 * hidden_size * expert_width; }  // a token and an expert

  int num_moe_layers() const {
    int count = 0;
    for (const bool moe : layer_is_moe) count += moe ? 1 : 0;
    return count;
  }
};

}  // namespace colibri
