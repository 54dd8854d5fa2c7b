// Operations whose products with q8 and q4 weights are written plainly from their definition
// (kernels/op_types.h, base/quantised.h): code by code, sums in 64-bit integers, one fma a group.
// All other operations are those of the portable CPU backend. For tests; slow.
#pragma once

#include <memory>

#include "kernels/ops.h"

namespace colibri {

std::unique_ptr<Ops> make_reference_ops();

}  // namespace colibri
