#include "worker/expert_shard.h"

#include <array>

#include "base/error.h"
#include "worker/load_to_backend.h"

namespace colibri {
namespace {

constexpr std::array kExpertRoles = {TensorRole::kExpertGate, TensorRole::kExpertUp,
                                     TensorRole::kExpertDown};

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

MatrixView& matrix_of(ExpertWeights& weights, TensorRole role) {
  if (role == TensorRole::kExpertGate) return weights.gate;
  return role == TensorRole::kExpertUp ? weights.up : weights.down;
}

}  // namespace

ExpertShard::ExpertShard(const Checkpoint& checkpoint, const Placement& placement,
                         const ShardOptions& options, const Backend& backend)
    : options_(options),
      backend_(backend),
      hidden_size_(checkpoint.config().hidden_size),
      width_(checkpoint.config().expert_width),
      device_groups_(*backend.device),
      device_group_begin_(*backend.device),
      device_pair_row_(*backend.device),
      device_out_offset_(*backend.device) {
  std::vector<MatrixLoad> loads;
  lay_out(checkpoint, placement, loads);
  if (!loads.empty()) {
    hidden_ = Buffer(*backend.device,
                     static_cast<size_t>(options.max_pairs * 2 * width_) * sizeof(float));
    if (row_dtype_ == DType::kI8) {
      hidden_quantised_ = Buffer(
          *backend.device, static_cast<size_t>(options.max_pairs * activation_row_bytes(width_)));
    }
  }
  load_to_backend(checkpoint, loads, memory_.as<char>(), backend, options_.on_bytes);
  options_.on_bytes = {};  // what it captured may end with the load
}

void ExpertShard::lay_out(const Checkpoint& checkpoint, const Placement& placement,
                          std::vector<MatrixLoad>& loads) {
  const int num_layers = checkpoint.config().num_layers;
  slots_.resize(static_cast<size_t>(num_layers));
  std::vector<MatrixView*> views;  // of each load
  size_t at = 0;
  for (int layer = 0; layer < num_layers; ++layer) {
    if (!checkpoint.config().layer_is_moe[static_cast<size_t>(layer)]) continue;
    const auto experts = placement.experts_of(layer, options_.rank);
    auto& slots = slots_[static_cast<size_t>(layer)];
    slots.resize(experts.size());
    num_resident_ += static_cast<int64_t>(experts.size());
    for (size_t slot = 0; slot < experts.size(); ++slot) {
      for (const TensorRole role : kExpertRoles) {
        const TensorRange range = checkpoint.range({role, layer, experts[slot]});
        MatrixView& view = matrix_of(slots[slot], role);
        view = {nullptr, kept_dtype(role, range.dtype, options_.formats), range.rows, range.cols};
        row_dtype_ = row_dtype_for(view.dtype, backend_.activations);
        loads.push_back({range, view.dtype, at});
        views.push_back(&view);
        at += aligned(static_cast<size_t>(view.size_bytes()));
      }
    }
  }
  memory_ = Buffer(*backend_.device, at);
  for (size_t i = 0; i < loads.size(); ++i) {
    views[i]->data = memory_.as<char>() + loads[i].offset_bytes;
  }
}

// A counting sort of the pairs by slot; only slots with rows become groups.
void ExpertShard::group_by_slot(const LocalRows& rows) {
  const auto& slots = slots_[static_cast<size_t>(rows.layer)];
  const size_t first = static_cast<size_t>(rows.pair_begin.front());
  const size_t num_pairs = static_cast<size_t>(rows.pair_begin.back()) - first;
  slot_count_.assign(slots.size(), 0);
  for (size_t p = first; p < first + num_pairs; ++p) {
    const int32_t slot = rows.slot[p];
    if (slot < 0 || static_cast<size_t>(slot) >= slots.size()) {
      fail(ErrorKind::kInput, "rank ", options_.rank, ", layer ", rows.layer,
           ": row asks for slot ", slot, ", want [0, ", slots.size(),
           "); do all ranks use the same placement?");
    }
    ++slot_count_[static_cast<size_t>(slot)];
  }
  groups_.clear();
  group_begin_.assign(1, 0);
  next_.resize(slots.size());
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    next_[slot] = group_begin_.back();
    if (slot_count_[slot] == 0) continue;
    groups_.push_back(slots[slot]);
    group_begin_.push_back(group_begin_.back() + slot_count_[slot]);
  }
  pair_row_.resize(num_pairs);
  out_offset_.resize(num_pairs);
  for (size_t row = 0; row < rows.row_token.size(); ++row) {
    for (auto p = static_cast<size_t>(rows.pair_begin[row]);
         p < static_cast<size_t>(rows.pair_begin[row + 1]); ++p) {
      const auto at = static_cast<size_t>(next_[static_cast<size_t>(rows.slot[p])]++);
      pair_row_[at] = rows.row_token[row];
      out_offset_[at] = static_cast<int64_t>(p - first) * hidden_size_;
    }
  }
}

void ExpertShard::run(const LocalRows& rows, Stream& stream) {
  if (rows.row_token.empty()) return;
  check(rows.layer >= 0 && static_cast<size_t>(rows.layer) < slots_.size(), "layer ", rows.layer);
  const int64_t num_pairs = rows.pair_begin.back() - rows.pair_begin.front();
  if (num_pairs > options_.max_pairs) {
    fail(ErrorKind::kInput, "rank ", options_.rank, ", layer ", rows.layer, ": ", num_pairs,
         " pairs in one message, want at most ", options_.max_pairs);
  }
  check(rows.tokens.dtype == row_dtype_, "rows are ", to_string(rows.tokens.dtype),
        ", this shard's experts take ", to_string(row_dtype_));
  group_by_slot(rows);
  const void* data = rows.tokens.data;
  backend_.ops->grouped_ffn(
      {.x = row_dtype_ == DType::kF32 ? static_cast<const float*>(data) : nullptr,
       .x_quantised = row_dtype_ == DType::kI8 ? data : nullptr,
       .x_bf16 = row_dtype_ == DType::kBF16 ? static_cast<const uint16_t*>(data) : nullptr,
       .experts = device_groups_.upload(groups_, stream),
       .group_begin = device_group_begin_.upload(group_begin_, stream),
       .pair_row = device_pair_row_.upload(pair_row_, stream),
       .out_offset = device_out_offset_.upload(out_offset_, stream),
       .out = rows.out,
       .hidden = hidden_.as<float>(),
       .hidden_quantised = hidden_quantised_.data(),
       .weight_dtype = groups_.front().gate.dtype,
       .num_pairs = num_pairs,
       .num_groups = static_cast<int32_t>(groups_.size()),
       .hidden_size = hidden_size_,
       .width = width_,
       .x_stride = hidden_size_},
      stream);
}

}  // namespace colibri
