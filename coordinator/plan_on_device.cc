#include "coordinator/plan_on_device.h"

#include <algorithm>

#include "base/uploaded_array.h"

namespace colibri {
namespace {

template <class T>
Buffer room_for(int64_t count, const Backend& backend) {
  return Buffer(*backend.device, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

PlanOnDevice::PlanOnDevice(const Placement& placement, const Backend& backend, const Limits& limits)
    : backend_(backend),
      limits_(limits),
      num_ranks_(placement.num_ranks()),
      max_rows_(limits.max_tokens * std::min<int64_t>(limits.top_k, num_ranks_)) {
  upload_tables(placement);
  const int64_t choices = limits.max_tokens * limits.top_k;
  counts_ = room_for<int32_t>(static_cast<int64_t>(counts_at(num_layers())) + 1, backend);
  row_token_ = room_for<int32_t>(max_rows_, backend);
  pair_begin_ = room_for<int32_t>(max_rows_ + 1, backend);
  slot_ = room_for<int32_t>(choices, backend);
  pair_of_choice_ = room_for<int32_t>(choices, backend);
}

void PlanOnDevice::upload_tables(const Placement& placement) {
  std::vector<int32_t> slot_begin;
  std::vector<ExpertSlot> slots;
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    tables_.push_back({slot_begin.size(), slots.size()});
    const size_t first = slots.size();
    const int32_t experts = placement.has_experts(layer) ? placement.num_experts() : 0;
    for (int32_t expert = 0; expert < experts; ++expert) {
      slot_begin.push_back(static_cast<int32_t>(slots.size() - first));
      for (const SlotRef& ref : placement.slots_of(layer, expert)) {
        slots.push_back({ref.rank, ref.slot});
      }
    }
    slot_begin.push_back(static_cast<int32_t>(slots.size() - first));
  }
  slot_begin_ = uploaded(std::span<const int32_t>(slot_begin), *backend_.device, *backend_.stream);
  slots_ = uploaded(std::span<const ExpertSlot>(slots), *backend_.device, *backend_.stream);
}

void PlanOnDevice::make(const RoutedTokens& tokens, Stream& stream) {
  const Table& table = tables_[static_cast<size_t>(tokens.layer)];
  backend_.ops->plan_dispatch(
      {.expert_ids = tokens.expert_ids,
       .slot_begin = slot_begin_.as<int32_t>() + table.slot_begin,
       .slots = slots_.as<ExpertSlot>() + table.slots,
       .num_real_tokens = tokens.num_real_tokens,
       .row_begin = counts_.as<int32_t>() + counts_at(tokens.layer),
       .row_token = row_token_.as<int32_t>(),
       .pair_begin = pair_begin_.as<int32_t>(),
       .slot = slot_.as<int32_t>(),
       .pair_of_choice = pair_of_choice_.as<int32_t>(),
       .rank_pair_begin = counts_.as<int32_t>() + counts_at(tokens.layer) + num_ranks_ + 1,
       .flags = flags(),
       .num_tokens = tokens.num_tokens(),
       .top_k = limits_.top_k,
       .num_ranks = num_ranks_},
      stream);
}

void PlanOnDevice::clear_flags(Stream& stream) {
  backend_.device->zero(flags(), sizeof(uint32_t), stream);
}

}  // namespace colibri
