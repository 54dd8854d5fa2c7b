// Small decisions of a session, each a pure function of options.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "model/checkpoint.h"
#include "topology/placement.h"

namespace colibri {

inline constexpr int kDefaultMaxBatch = 16;
inline constexpr int64_t kStopTimeoutMs = 3000;
inline constexpr int64_t kStopAfterLossMs = 200;

// "auto" is f32 on the CPU and bf16 on a GPU.
DType parse_kv_dtype(const std::string& text, bool is_cuda = false);
// "auto" is the best this processor has.
Isa parse_isa(const std::string& text);

// The checkpoint of --model, or random weights of --shape in the wanted forms. Errors: as
// Checkpoint::open; kInput for a shape that is not known (with those that are).
Checkpoint open_model(const CommonOptions& options, const WeightFormats& formats);

// Random weights of `config` in the wanted forms, the same on every rank.
Checkpoint random_model(const ModelConfig& config, const WeightFormats& formats);

// Most tokens of one sequence: --max-context, else what the model was made for. Fails with kInput
// when --max-context is more than that.
int64_t context_limit(const CommonOptions& options, const ModelConfig& config);

// Threads of this rank: --threads, else its share of the allowed cores, or the cores near its GPU.
ThreadPool::Options pool_options(const CommonOptions& options, const RankContext& context);

// Whether a rank that waits may spin: ranks do not outnumber this machine's cores.
bool may_spin(const RankContext& context);

// Bytes `rank` reads from the checkpoint.
uint64_t share_bytes(const Checkpoint& checkpoint, const Placement& placement, int rank);

// Activations of attention and of dense layers for one step of max_tokens tokens.
int64_t attention_workspace_bytes(const ModelConfig& config, int64_t max_tokens);

// How long reading may take before a rank counts as stuck: 20 MB/s is a slow network file system.
inline int64_t load_allowance_ms(uint64_t bytes) { return static_cast<int64_t>(bytes / 20000); }

}  // namespace colibri
