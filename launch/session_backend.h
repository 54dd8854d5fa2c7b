// What a rank of a session computes with, and how its rows travel: decided by --device,
// --transport and --activations.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/device.h"
#include "coordinator/return_capacity.h"
#include "kernels/cuda/dense.h"
#include "kernels/ops.h"
#include "launch/rank_context.h"
#include "launch/run_config.h"
#include "transport/device_link.h"

namespace colibri {

// What tests put in the place of what the options ask for. Functions that are not set change
// nothing.
struct BackendHooks {
  std::function<std::unique_ptr<Device>(ThreadPool&)> make_device;
  std::function<std::unique_ptr<Ops>(Isa)> make_ops;
  // Takes the place of the operations that were made, for the given device. Called for plans of a
  // GPU's memory too, with a device that only counts; the last time for the session's own.
  std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops>, Device&)> wrap_ops;
  // Rows then travel between devices, planned there. Called on every rank.
  std::function<std::unique_ptr<DeviceLink>(RankContext&, Device&)> make_link;
  FixedCapacity fixed_capacity;  // for rows that travel so
};

// In the order they are made; the last goes first.
struct SessionBackend {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<DeviceLink> link;  // null: rows are planned, and travel, in host memory
  FixedCapacity fixed_capacity;

  // "cpu", "cuda over nccl", ...: the same on ranks that fit together.
  std::string text() const;
};

// Decode steps up to this many tokens have messages of fixed size and are captured.
inline constexpr int64_t kMaxFixedTokens = 64;

// Whether the dispatch plan stays on the GPU: rows travel over NCCL, or not at all.
bool plans_on_gpu(const CommonOptions& options, const RankContext& context);

// Every rank calls it at the same point: with NCCL the ranks join a communicator here. Errors:
// kUnsupported for a combination that cannot be; those of the GPU and of NCCL.
// `dense`: the matrices that this rank multiplies with bf16 rows.
SessionBackend make_session_backend(const CommonOptions& options, const BackendHooks& hooks,
                                    RankContext& context, ThreadPool& pool,
                                    std::span<const DenseShape> dense);

// --activations: f32 on the CPU, bf16 on a GPU unless f32 is asked for. Fails with kUnsupported for
// bf16 on the CPU.
DType parse_activations(const std::string& text, bool is_cuda);

}  // namespace colibri
