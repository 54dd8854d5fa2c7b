#include "model/container_codes.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace colibri {
namespace {

// docs/container.md has the same table.
constexpr auto kRoles = std::to_array<std::pair<TensorRole, uint16_t>>({
    {TensorRole::kEmbedding, 1},
    {TensorRole::kFinalNorm, 2},
    {TensorRole::kLmHead, 3},
    {TensorRole::kAttentionNorm, 10},
    {TensorRole::kMlpNorm, 11},
    {TensorRole::kQ, 20},
    {TensorRole::kK, 21},
    {TensorRole::kV, 22},
    {TensorRole::kO, 23},
    {TensorRole::kQBias, 24},
    {TensorRole::kKBias, 25},
    {TensorRole::kVBias, 26},
    {TensorRole::kOBias, 27},
    {TensorRole::kQNorm, 28},
    {TensorRole::kKNorm, 29},
    {TensorRole::kLatentQ, 40},
    {TensorRole::kLatentQA, 41},
    {TensorRole::kLatentQANorm, 42},
    {TensorRole::kLatentQB, 43},
    {TensorRole::kLatentQABias, 44},
    {TensorRole::kLatentKvABias, 45},
    {TensorRole::kLatentKvA, 46},
    {TensorRole::kLatentKvANorm, 47},
    {TensorRole::kLatentKvB, 48},
    {TensorRole::kRouter, 60},
    {TensorRole::kRouterBias, 61},
    {TensorRole::kDenseGate, 70},
    {TensorRole::kDenseUp, 71},
    {TensorRole::kDenseDown, 72},
    {TensorRole::kSharedGate, 73},
    {TensorRole::kSharedUp, 74},
    {TensorRole::kSharedDown, 75},
    {TensorRole::kSharedExpertGate, 76},
    {TensorRole::kExpertGate, 80},
    {TensorRole::kExpertUp, 81},
    {TensorRole::kExpertDown, 82},
});
static_assert(kRoles.size() == static_cast<size_t>(TensorRole::kExpertDown) + 1);

constexpr auto kDTypes = std::to_array<std::pair<DType, uint8_t>>(
    {{DType::kF32, 1}, {DType::kBF16, 2}, {DType::kQ8, 3}, {DType::kQ4, 4}});

}  // namespace

uint16_t container_code(TensorRole role) {
  for (const auto& [known, code] : kRoles) {
    if (known == role) return code;
  }
  fail(ErrorKind::kInternal, "no container code for the role ", to_string(role));
}

uint8_t container_code(DType dtype) {
  for (const auto& [known, code] : kDTypes) {
    if (known == dtype) return code;
  }
  fail(ErrorKind::kInternal, "no container code for the type ", to_string(dtype));
}

std::optional<TensorRole> role_of_code(uint16_t code) {
  for (const auto& [role, known] : kRoles) {
    if (known == code) return role;
  }
  return std::nullopt;
}

std::optional<DType> dtype_of_code(uint8_t code) {
  for (const auto& [dtype, known] : kDTypes) {
    if (known == code) return dtype;
  }
  return std::nullopt;
}

}  // namespace colibri
