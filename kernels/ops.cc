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

std::unique_ptr<Ops> make_cpu_ops(Isa isa) {
  if (!isa_is_available(isa)) {
    fail(ErrorKind::kUnsupported, "this processor has no ", to_string(isa),
         "; its best instruction set is ", to_string(best_isa()), " (unset COLIBRI_ISA to use it)");
  }
  return std::make_unique<CpuOps>(table_of(isa));
}

}  // namespace colibri
