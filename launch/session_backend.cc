#include "launch/session_backend.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "launch/cuda_backend.h"
#include "launch/session_setup.h"

namespace colibri {
namespace {

std::unique_ptr<Device> make_device(const BackendHooks& hooks, const ChosenDevice& chosen,
                                    ThreadPool& pool) {
  if (hooks.make_device) return hooks.make_device(pool);
  return chosen.is_cuda() ? chosen.backend->make_device(chosen.gpu.ordinal) : make_cpu_device(pool);
}

std::unique_ptr<Ops> make_ops(const BackendHooks& hooks, const ChosenDevice& chosen, Isa isa,
                              Device& device, std::span<const DenseShape> dense) {
  if (hooks.make_ops) return hooks.make_ops(isa);
  return chosen.is_cuda() ? chosen.backend->make_ops(device, dense) : make_cpu_ops(isa);
}

std::unique_ptr<DeviceLink> make_nccl_link(const CommonOptions& options, RankContext& context,
                                           Device& device) {
  Transport& host = *context.transport;
  return context.device.backend->make_link(
      device, {.host = &host,
               .start_timeout_ms = int64_t{options.start_timeout_s} * 1000,
               .step_timeout_ms = int64_t{options.step_timeout_s} * 1000,
               .may_spin = may_spin(context)});
}

}  // namespace

std::string SessionBackend::text() const {
  const std::string name = ops->name().substr(0, ops->name().find('/'));
  return name + (link ? " with rows between devices" : " with rows through host memory");
}

bool plans_on_gpu(const CommonOptions& options, const RankContext& context) {
  const bool is_alone = context.size == 1 && !options.self_exchange;
  return context.device.is_cuda() && (context.device.over_nccl || is_alone);
}

SessionBackend make_session_backend(const CommonOptions& options, const BackendHooks& hooks,
                                    RankContext& context, ThreadPool& pool,
                                    std::span<const DenseShape> dense) {
  if (options.transport == "nccl" && !context.device.is_cuda()) {
    fail(ErrorKind::kUnsupported,
         "--transport nccl sends rows between GPUs; want --device cuda, or --transport mpi");
  }
  if (options.fixed_share != ReturnCapacity::kShares && !context.device.over_nccl) {
    fail(ErrorKind::kUnsupported, "--fixed-share ", options.fixed_share,
         " is of messages between GPUs, and no rows travel over NCCL here; want --transport nccl "
         "with several ranks or --self-exchange, or no --fixed-share");
  }
  SessionBackend made;
  made.device = make_device(hooks, context.device, pool);
  made.stream = made.device->make_stream();
  made.ops = make_ops(hooks, context.device, parse_isa(options.isa), *made.device, dense);
  if (hooks.wrap_ops) made.ops = hooks.wrap_ops(std::move(made.ops), *made.device);
  made.fixed_capacity = hooks.fixed_capacity;
  if (hooks.make_link) {
    made.link = hooks.make_link(context, *made.device);
  } else if (plans_on_gpu(options, context)) {
    made.link = context.device.over_nccl ? make_nccl_link(options, context, *made.device)
                                         : make_lone_link(*made.device, may_spin(context));
    made.fixed_capacity = {kMaxFixedTokens, options.fixed_share};
  }
  return made;
}

DType parse_activations(const std::string& text, bool is_cuda) {
  if (text == "bf16" && !is_cuda) {
    fail(ErrorKind::kUnsupported, "--activations bf16 needs a GPU (--device cuda); want f32");
  }
  return text == "f32" || !is_cuda ? DType::kF32 : DType::kBF16;
}

}  // namespace colibri
