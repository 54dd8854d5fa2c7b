#include "coordinator/step_inputs.h"

#include <algorithm>
#include <bit>

namespace colibri {

namespace {

// The last position of the smallest 64 2^n that hold `position`.
int32_t end_of_bucket(int32_t position) {
  const auto tiles = static_cast<uint32_t>(position / kTile + 1);
  return static_cast<int32_t>(std::bit_ceil(tiles)) * kTile - 1;
}

}  // namespace

void StepInputs::reserve(int64_t max_tokens, int64_t max_entries) {
  const auto tokens = static_cast<size_t>(max_tokens);
  ids_.reserve(tokens);
  positions_.reserve(tokens);
  logit_rows_.reserve(tokens);
  num_real_.reserve(1);
  rows_.reserve(tokens);
  draws_.reserve(tokens);
  tables_.reserve(static_cast<size_t>(max_entries));
}

void StepInputs::set(const Batch& batch, int64_t num_real, Stream& stream) {
  const bool on_host = device_.place() == Place::kHost;
  host_num_real_ = static_cast<int32_t>(num_real);
  data_.ids = ids_.upload(batch.ids, stream);
  data_.positions = positions_.upload(batch.positions, stream);
  set_logit_rows(batch, stream);
  data_.num_real = num_real_.upload({&host_num_real_, 1}, stream);
  data_.rows = on_host ? batch.rows.data() : upload_rows(batch, stream);
  const int32_t last = batch.positions.empty()
                           ? 0
                           : *std::max_element(batch.positions.begin(), batch.positions.end());
  data_.max_position = on_host ? last : end_of_bucket(last);
}

void StepInputs::set_logit_rows(const Batch& batch, Stream& stream) {
  host_logit_rows_.clear();
  host_draws_.clear();
  data_.picks = StepPicks::kNone;
  for (const LogitRow& row : batch.logit_rows) {
    const TokenDraw draw = row.is_picked_by_operation() ? *row.pick : TokenDraw{};
    const StepPicks wanted = !row.is_picked_by_operation() ? StepPicks::kNone
                             : draw.top_k == 0             ? StepPicks::kGreedy
                                                           : StepPicks::kDrawn;
    host_logit_rows_.push_back(row.token);
    host_draws_.push_back(draw);
    data_.picks = std::max(data_.picks, wanted);
  }
  const bool is_drawn = data_.picks == StepPicks::kDrawn;
  data_.logit_rows = logit_rows_.upload(host_logit_rows_, stream);
  data_.draws = is_drawn ? draws_.upload(host_draws_, stream) : nullptr;
}

// The tables of the step, one after the other. Consecutive tokens of a sequence share the table of
// the last of them, and so the pointer, as attention wants it.
const KvRow* StepInputs::upload_rows(const Batch& batch, Stream& stream) {
  host_tables_.clear();
  std::vector<size_t> table_begin;
  table_begin.reserve(batch.rows.size());
  for (size_t first = 0; first < batch.rows.size();) {
    const int32_t* pages = batch.rows[first].pages;
    int32_t last_position = 0;
    size_t end = first;
    for (; end < batch.rows.size() && batch.rows[end].pages == pages; ++end) {
      last_position = std::max(last_position, batch.rows[end].position);
      table_begin.push_back(host_tables_.size());
    }
    host_tables_.insert(host_tables_.end(), pages, pages + last_position / kTile + 1);
    first = end;
  }
  const int32_t* tables = tables_.upload(host_tables_, stream);
  host_rows_.resize(batch.rows.size());
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    host_rows_[i] = {tables + table_begin[i], batch.rows[i].position};
  }
  return rows_.upload(host_rows_, stream);
}

}  // namespace colibri
