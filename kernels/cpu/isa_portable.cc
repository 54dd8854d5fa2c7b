// The kernels compiled for one instruction set; everything but the table's getter is local.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernel_table.h"

#define INLINE inline __attribute__((always_inline))
#define COLIBRI_ISA_NAME "portable"

namespace colibri {
namespace {

// Each text needs those above it.
// clang-format off
#include "kernels/cpu/vec_portable.inc"
#include "kernels/cpu/math.inc"
#include "kernels/cpu/dot.inc"
#include "kernels/cpu/product.inc"
#include "kernels/cpu/row_kernels.inc"
#include "kernels/cpu/attention.inc"
#include "kernels/cpu/qform.inc"
#include "kernels/cpu/qvec_portable.inc"
#include "kernels/cpu/quantise.inc"
#include "kernels/cpu/qdot.inc"
#include "kernels/cpu/table.inc"
// clang-format on

}  // namespace

const KernelTable& portable_kernels() { return kTable; }

}  // namespace colibri
