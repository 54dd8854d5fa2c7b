#include "worker/expert_shard.h"

#include <algorithm>
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

const ResidentExpert* find_expert(const std::vector<ResidentExpert>& slots, int32_t expert) {
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const ResidentExpert& resident) {
    return resident.expert == expert;
  });
  return found == slots.end() ? nullptr : &*found;
}

// Forms and size of an expert that is to be read; its loads begin at offset 0 of its memory.
std::vector<MatrixLoad> lay_out_expert(const Checkpoint& checkpoint, int layer, int32_t expert,
                                       const WeightFormats& formats, ResidentExpert& out) {
  std::vector<MatrixLoad> loads;
  out = {.expert = expert, .weights = {}};
  for (const TensorRole role : kExpertRoles) {
    const TensorRange range = checkpoint.range({role, layer, expert});
    MatrixView& view = matrix_of(out.weights, role);
    view = {nullptr, kept_dtype(role, range.dtype, formats), range.rows, range.cols};
    loads.push_back({range, view.dtype, out.bytes});
    out.bytes += aligned(static_cast<size_t>(view.size_bytes()));
  }
  return loads;
}

// Memory of an expert that has gone, if there is some of this size.
bool take_unused(std::vector<ResidentExpert>& unused, ResidentExpert& expert) {
  const auto found = std::find_if(unused.begin(), unused.end(), [&](const ResidentExpert& old) {
    return old.bytes == expert.bytes;
  });
  if (found == unused.end()) return false;
  expert.memory = found->memory;
  unused.erase(found);
  return true;
}

// The matrices' addresses; loads still count from the expert's own memory.
void place(ResidentExpert& expert, const std::vector<MatrixLoad>& loads) {
  for (size_t i = 0; i < kExpertRoles.size(); ++i) {
    matrix_of(expert.weights, kExpertRoles[i]).data = expert.memory + loads[i].offset_bytes;
  }
}

}  // namespace

ExpertShard::ExpertShard(const Checkpoint& checkpoint, const Placement& placement,
                         const ShardOptions& options, const Backend& backend)
    : options_(options),
      backend_(backend),
      hidden_size_(checkpoint.config().hidden_size),
      width_(checkpoint.config().expert_width),
      slots_(static_cast<size_t>(checkpoint.config().num_layers)),
      device_groups_(*backend.device),
      device_group_begin_(*backend.device),
      device_pair_row_(*backend.device),
      device_out_offset_(*backend.device) {
  ShardChange all = plan_change(checkpoint, placement);
  if (options_.reads_weights) load(all, checkpoint, backend, options_.on_bytes);
  adopt(std::move(all));
  options_.on_bytes = {};  // what it captured may end with the load
}

int64_t ExpertShard::resident_bytes() const {
  size_t bytes = 0;
  for (const Buffer& memory : memory_) bytes += memory.size_bytes();
  return static_cast<int64_t>(bytes);
}

ShardChange ExpertShard::plan_change(const Checkpoint& checkpoint,
                                     const Placement& placement) const {
  ShardChange change;
  change.slots.resize(slots_.size());
  std::vector<ResidentExpert> unused = unused_;
  std::vector<ResidentExpert*> homeless;
  std::vector<std::vector<MatrixLoad>> loads_of_homeless;
  size_t fresh_bytes = 0;
  for (size_t layer = 0; layer < slots_.size(); ++layer) {
    const auto experts = placement.experts_of(static_cast<int>(layer), options_.rank);
    auto& slots = change.slots[layer];
    slots.resize(experts.size());
    for (size_t slot = 0; slot < experts.size(); ++slot) {
      if (const ResidentExpert* held = find_expert(slots_[layer], experts[slot])) {
        slots[slot] = *held;
        continue;
      }
      auto loads = lay_out_expert(checkpoint, static_cast<int>(layer), experts[slot],
                                  options_.formats, slots[slot]);
      ++change.num_new;
      if (take_unused(unused, slots[slot])) {
        place(slots[slot], loads);
        change.parts.push_back({slots[slot].memory, std::move(loads)});
      } else {
        fresh_bytes += slots[slot].bytes;
        homeless.push_back(&slots[slot]);
        loads_of_homeless.push_back(std::move(loads));
      }
    }
  }
  change.fresh = Buffer(*backend_.device, fresh_bytes);
  ShardChange::Part part{change.fresh.as<char>(), {}};
  size_t at = 0;
  for (size_t i = 0; i < homeless.size(); ++i) {
    homeless[i]->memory = part.memory + at;
    place(*homeless[i], loads_of_homeless[i]);
    for (MatrixLoad& load : loads_of_homeless[i]) {
      load.offset_bytes += at;
      part.loads.push_back(std::move(load));
    }
    at += homeless[i]->bytes;
  }
  if (!part.loads.empty()) change.parts.push_back(std::move(part));
  return change;
}

void ExpertShard::load(const ShardChange& change, const Checkpoint& checkpoint,
                       const Backend& backend, const ShardBytesRead& on_bytes) {
  for (const ShardChange::Part& part : change.parts) {
    load_to_backend(checkpoint, part.loads, part.memory, backend, on_bytes);
  }
}

void ExpertShard::adopt(ShardChange change) {
  for (const auto& slots : slots_) unused_.insert(unused_.end(), slots.begin(), slots.end());
  num_resident_ = 0;
  for (const auto& slots : change.slots) {
    num_resident_ += static_cast<int64_t>(slots.size());
    for (const ResidentExpert& kept : slots) {
      std::erase_if(unused_, [&](const ResidentExpert& u) { return u.memory == kept.memory; });
      weight_dtype_ = kept.weights.gate.dtype;
      row_dtype_ = row_dtype_for(weight_dtype_, backend_.activations);
    }
  }
  slots_ = std::move(change.slots);
  if (change.fresh.size_bytes() > 0) memory_.push_back(std::move(change.fresh));
  if (num_resident_ > 0) take_workspace();
  lay_out_tables();
}

void ExpertShard::take_workspace() {
  if (hidden_.size_bytes() > 0) return;
  Device& device = *backend_.device;
  const int64_t pairs = options_.max_pairs;
  hidden_ = Buffer(device, static_cast<size_t>(pairs * 2 * width_) * sizeof(float));
  if (row_dtype_ == DType::kI8) {
    hidden_quantised_ = Buffer(device, static_cast<size_t>(pairs * activation_row_bytes(width_)));
  }
}

void ExpertShard::lay_out_tables() {
  std::vector<ExpertWeights> all;
  size_t most_slots = 0;
  for (const auto& slots : slots_) {
    for (const ResidentExpert& resident : slots) all.push_back(resident.weights);
    most_slots = std::max(most_slots, slots.size());
  }
  slot_table_.clear();
  if (all.empty()) return;
  Device& device = *backend_.device;
  slot_memory_ = uploaded(std::span<const ExpertWeights>(all), device, *backend_.stream);
  const auto* at = slot_memory_.as<ExpertWeights>();
  for (const auto& slots : slots_) {
    slot_table_.push_back(at);
    at += slots.size();
  }
  const auto pairs = static_cast<size_t>(options_.max_pairs);
  slot_group_begin_ = Buffer(device, (most_slots + 1) * sizeof(int32_t));
  slot_pair_row_ = Buffer(device, pairs * sizeof(int32_t));
  slot_out_ = Buffer(device, pairs * sizeof(int64_t));
  device_groups_.reserve(most_slots);
  device_group_begin_.reserve(most_slots + 1);
  device_pair_row_.reserve(pairs);
  device_out_offset_.reserve(pairs);
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
    groups_.push_back(slots[slot].weights);
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
  group_by_slot(rows);
  run_groups(rows.tokens, rows.out,
             {.experts = device_groups_.upload(groups_, stream),
              .group_begin = device_group_begin_.upload(group_begin_, stream),
              .pair_row = device_pair_row_.upload(pair_row_, stream),
              .out_offset = device_out_offset_.upload(out_offset_, stream),
              .num_pairs = num_pairs,
              .num_groups = static_cast<int32_t>(groups_.size())},
             stream);
}

void ExpertShard::run(const DeviceRows& rows, Stream& stream) {
  const auto layer = static_cast<size_t>(rows.layer);
  check(rows.layer >= 0 && layer < slots_.size() && rows.max_pairs <= options_.max_pairs, "layer ",
        rows.layer, " with up to ", rows.max_pairs, " pairs, want at most ", options_.max_pairs);
  if (rows.max_pairs == 0 || slots_[layer].empty()) return;
  const auto num_slots = static_cast<int32_t>(slots_[layer].size());
  backend_.ops->group_pairs({.num_rows = rows.num_rows,
                             .row_range = rows.row_range,
                             .pair_begin = rows.pair_begin,
                             .slot = rows.slot,
                             .row_token = rows.row_token,
                             .group_begin = slot_group_begin_.as<int32_t>(),
                             .pair_row = slot_pair_row_.as<int32_t>(),
                             .out_offset = slot_out_.as<int64_t>(),
                             .flags = rows.flags,
                             .num_slots = num_slots,
                             .max_rows = rows.max_rows,
                             .max_pairs = rows.max_pairs,
                             .max_results = rows.max_results,
                             .hidden_size = hidden_size_},
                            stream);
  run_groups(rows.tokens, rows.out,
             {.experts = slot_table_[layer],
              .group_begin = slot_group_begin_.as<int32_t>(),
              .pair_row = slot_pair_row_.as<int32_t>(),
              .out_offset = slot_out_.as<int64_t>(),
              .num_pairs = rows.max_results,
              .num_groups = num_slots},
             stream);
}

// Fills in what all calls share.
void ExpertShard::run_groups(const TokenRows& tokens, const ResultRows& out, GroupedFfn groups,
                             Stream& stream) {
  check(tokens.dtype == row_dtype_, "rows are ", to_string(tokens.dtype),
        ", this shard's experts take ", to_string(row_dtype_));
  check(out.dtype == backend_.activations, "results in ", to_string(out.dtype),
        ", this shard's are ", to_string(backend_.activations));
  if (row_dtype_ == DType::kF32) groups.x = static_cast<const float*>(tokens.data);
  if (row_dtype_ == DType::kI8) groups.x_quantised = tokens.data;
  if (row_dtype_ == DType::kBF16) groups.x_bf16 = static_cast<const uint16_t*>(tokens.data);
  if (out.dtype == DType::kF32) groups.out = static_cast<float*>(out.data);
  if (out.dtype == DType::kBF16) groups.out_bf16 = static_cast<uint16_t*>(out.data);
  groups.hidden = hidden_.as<float>();
  groups.hidden_quantised = hidden_quantised_.data();
  groups.weight_dtype = weight_dtype_;
  groups.hidden_size = hidden_size_;
  groups.width = width_;
  groups.x_stride = hidden_size_;
  backend_.ops->grouped_ffn(groups, stream);
}

}  // namespace colibri
