#include "coordinator/token_picker.h"

#include <algorithm>

#include "base/error.h"
#include "coordinator/logit_rules.h"

namespace colibri {
namespace {

bool is_read_by_host(const LogitRow& row) { return row.is_shown || row.is_picked_on_host(); }

void make_room(Device& device, size_t bytes, std::unique_ptr<StagingBuffer>& buffer) {
  if (buffer && buffer->size_bytes() >= bytes) return;
  buffer.reset();
  buffer = std::make_unique<StagingBuffer>(device, bytes);
}

}  // namespace

TokenPicker::TokenPicker(const ForwardContext& context)
    : context_(context), ids_(*context.device, 0) {}

void TokenPicker::reserve(int64_t num_rows) {
  const size_t bytes = static_cast<size_t>(num_rows) * sizeof(int32_t);
  ids_.reserve_discarding(bytes);
  if (!is_on_host()) make_room(*context_.device, bytes, host_ids_);
}

void TokenPicker::reserve_on_host(int64_t num_rows) {
  if (is_on_host() || num_rows == 0) return;
  make_room(*context_.device, static_cast<size_t>(num_rows) * row_bytes(), host_logits_);
}

void TokenPicker::begin_step(std::span<const LogitRow> rows) {
  const auto num_read = std::count_if(rows.begin(), rows.end(), is_read_by_host);
  reserve_on_host(num_read);
}

void TokenPicker::pick(const float* logits, int64_t num_rows) {
  if (context_.inputs->picks() == StepPicks::kNone) return;
  const auto vocabulary = context_.config->vocab_size;
  context_.ops->pick_tokens({.logits = logits,
                             .draws = context_.inputs->draws(),
                             .ids = ids_.as<int32_t>(),
                             .num_rows = num_rows,
                             .vocabulary = vocabulary,
                             .stride = vocabulary},
                            *context_.stream);
}

void TokenPicker::fetch(std::span<const LogitRow> rows, const float* logits) {
  logits_ = logits;
  rows_.assign(rows.size(), {});
  if (!is_on_host()) {
    fetch_ids();
    fetch_logits(rows);
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) rows_[i].logits = row(logits + i * vocab_size());
}

void TokenPicker::fetch_ids() {
  if (context_.inputs->picks() == StepPicks::kNone) return;
  context_.device->copy(host_ids_->as<int32_t>(), ids_.data(), rows_.size() * sizeof(int32_t),
                        *context_.stream);
}

// The rows that the host reads, one after the other; neighbours in one copy.
void TokenPicker::fetch_logits(std::span<const LogitRow> rows) {
  float* to = host_logits_ ? host_logits_->as<float>() : nullptr;
  for (size_t first = 0, end = 0; first < rows.size(); first = end + 1) {
    float* begin = to;
    for (end = first; end < rows.size() && is_read_by_host(rows[end]); ++end) {
      rows_[end].logits = row(to);
      to += vocab_size();
    }
    context_.device->copy(begin, logits_ + first * vocab_size(), (end - first) * row_bytes(),
                          *context_.stream);
  }
}

std::span<const StepRow> TokenPicker::take(std::span<const LogitRow> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const LogitRow& row = rows[i];
    if (row.is_picked_on_host()) {
      rows_[i].id = row.rules ? row.rules->pick(rows_[i].logits, *row.pick)
                              : sample(rows_[i].logits, *row.pick);
    }
    if (!row.is_picked_by_operation()) continue;
    rows_[i].id = (is_on_host() ? ids_.as<int32_t>() : host_ids_->as<int32_t>())[i];
    if (rows_[i].id < 0) fail_on(i);
  }
  return rows_;
}

// The sampler says which logit it is.
void TokenPicker::fail_on(size_t row_idx) {
  std::vector<float> copied(vocab_size());
  context_.device->copy(copied.data(), logits_ + row_idx * vocab_size(), row_bytes(),
                        *context_.stream);
  context_.stream->synchronize();
  sample(copied, {});
  fail(ErrorKind::kInternal, "no token was picked of row ", row_idx, " whose logits are finite");
}

}  // namespace colibri
