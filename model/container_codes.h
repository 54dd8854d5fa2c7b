// The numbers that stand for roles and element types in a .colibri file. They never change.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "model/tensor_role.h"

namespace colibri {

uint16_t container_code(TensorRole role);
// Fails with kInternal for a type that no container holds.
uint8_t container_code(DType dtype);

// Nothing for a number without a meaning.
std::optional<TensorRole> role_of_code(uint16_t code);
std::optional<DType> dtype_of_code(uint8_t code);

}  // namespace colibri
