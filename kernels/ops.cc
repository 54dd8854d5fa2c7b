#include "kernels/ops.h"

#include "base/error.h"
#include "kernels/cpu/cpu_ops.h"

namespace colibri {
namespace {

const KernelTable& table_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return portable_kernels();
    case Isa::kAvx2:
      return avx2_kernels();
    case Isa::kAvx512:
      return avx512_kernels();
  }
  return portable_kernels();
}

}  // namespace

void check_router(const RouterKnobs& knobs) {
  check(knobs.num_experts >= 1 && knobs.num_experts <= kMaxExperts, "router of ", knobs.num_experts,
        " experts, want 1 to ", kMaxExperts);
  check(knobs.num_groups >= 1 && knobs.num_experts % knobs.num_groups == 0 &&
            knobs.top_groups >= 1 && knobs.top_groups <= knobs.num_groups,
        "router keeps ", knobs.top_groups, " of ", knobs.num_groups, " groups of ",
        knobs.num_experts, " experts");
  check(knobs.top_k >= 1 && knobs.top_k <= knobs.num_experts / knobs.num_groups * knobs.top_groups,
        "router chooses ", knobs.top_k, " experts, want 1 to as many as its kept groups hold");
}

std::unique_ptr<Ops> make_cpu_ops(Isa isa) {
  if (!isa_is_available(isa)) {
    fail(ErrorKind::kUnsupported, "this processor has no ", to_string(isa),
         "; its best instruction set is ", to_string(best_isa()), " (unset COLIBRI_ISA to use it)");
  }
  return std::make_unique<CpuOps>(table_of(isa));
}

}  // namespace colibri
