// Attention on the GPU beside the CPU backend, over caches made for the purpose.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/cuda_rig.h"

namespace colibri {

// Some consecutive tokens of one sequence.
struct Run {
  int32_t first_position;
  int32_t num_tokens;
};

struct AttentionCase {
  KvLayout layout;
  int64_t num_heads;
  std::vector<Run> runs;  // each of another sequence
  bool knows_contexts = false;
  int64_t pad = 0;  // floats between rows of q and out
};

// Told of the cache in the GPU's memory before the operation runs.
using OnPool = std::function<void(const void* pool, size_t bytes)>;

// Random queries, keys and values. What lies after each sequence's last position is NaN. "" or how
// the GPU's result differs.
std::string compare_attention(const AttentionCase& c, const OnPool& on_pool = {});
// The same with the first number of key and value of kv head 0 at one position of the first
// sequence set to `number`, for f32 caches.
std::string compare_spoilt_attention(const AttentionCase& c, int32_t position, float number);

}  // namespace colibri
