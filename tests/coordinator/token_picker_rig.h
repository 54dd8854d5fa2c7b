// A token picker on any device, with logits of three rows that no model made: all of [-8, 8), many
// of them equal.
#pragma once

#include <vector>

#include "coordinator/token_picker.h"

namespace colibri {

class TokenPickerRig {
 public:
  TokenPickerRig(const Backend& backend, int64_t vocab_size) : backend_(backend) {
    config_.vocab_size = vocab_size;
    for (int64_t i = 0; i < 3 * vocab_size; ++i) {
      logits.push_back(static_cast<float>(i * 7919 % 1601) / 100 - 8);
    }
  }

  std::span<const float> row(size_t idx) const {
    const auto width = static_cast<size_t>(config_.vocab_size);
    return std::span(logits).subspan(idx * width, width);
  }

  // What the host gets for `rows` of a step whose work is done; `rows` are at most three.
  std::span<const StepRow> run(const std::vector<LogitRow>& rows) {
    const auto num_rows = static_cast<int64_t>(rows.size());
    Buffer memory(*backend_.device, logits.size() * sizeof(float));
    backend_.device->copy(memory.data(), logits.data(), memory.size_bytes(), *backend_.stream);
    batch_.logit_rows = rows;
    inputs_.set(batch_, 0, *backend_.stream);
    picker_.reserve(num_rows);
    picker_.begin_step(rows);
    picker_.pick(memory.as<float>(), num_rows);
    picker_.fetch(rows, memory.as<float>());
    backend_.stream->synchronize();
    memory_ = std::move(memory);
    return picker_.take(rows);
  }

  std::vector<float> logits;  // [3, V]

 private:
  Backend backend_;
  ModelConfig config_;
  StepInputs inputs_{*backend_.device};
  TokenPicker picker_{{.config = &config_,
                       .device = backend_.device,
                       .ops = backend_.ops,
                       .stream = backend_.stream,
                       .inputs = &inputs_}};
  Batch batch_;
  Buffer memory_;
};

inline LogitRow picked(const TokenDraw& draw) { return {.pick = draw}; }

// The draw of `position`, from the top_k most likely.
inline LogitRow drawn(int top_k, uint64_t position, int64_t vocab_size) {
  const SamplingParams params{.greedy = false, .temperature = 1.5f, .top_k = top_k, .seed = 9};
  return picked(token_draw(params, {.position = position}, vocab_size));
}

}  // namespace colibri
