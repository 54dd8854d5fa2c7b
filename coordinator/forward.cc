#include "coordinator/forward.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace colibri {
namespace {

// The widest row that a product of the coordinator reads.
int64_t widest_row(const ModelConfig& config) {
  const AttentionConfig& a = config.attention;
  return std::max({config.hidden_size, a.num_heads * std::max(a.head_dim, a.v_head_dim),
                   a.q_lora_rank, config.dense_width, config.shared_width});
}

}  // namespace

Forward::Forward(const ForwardContext& context, const MoeLayerParts& experts)
    : linear_({context.device, context.stream, context.ops, nullptr, context.activations},
              {context.max_tokens, widest_row(*context.config)}),
      inputs_(*context.device),
      graphs_(*context.device),
      context_(with_own_parts(context)),
      rope_(context_),
      grouped_(context_),
      latent_(context_),
      mlp_(context_),
      moe_(context_, experts, mlp_),
      picker_(context_),
      hidden_(float_buffer(context, context.max_tokens * context.config->hidden_size)),
      normed_(float_buffer(context, context.max_tokens * context.config->hidden_size)),
      last_(*context.device, 0),
      logits_(*context.device, 0) {
  if (context.device->place() == Place::kHost) return;
  const int64_t captured = moe_.path().max_captured_tokens();
  const int64_t entries = std::max<int64_t>(context.max_table_entries, context.cache->num_pages());
  inputs_.reserve(context.max_tokens, entries + captured);
  reserve_logit_rows(std::max(captured, context.max_logit_rows));
  picker_.reserve_on_host(context.max_logit_rows);
}

// Graphs keep addresses.
void Forward::reserve_logit_rows(int64_t num_logit_rows) {
  if (num_logit_rows <= max_logit_rows_) return;
  max_logit_rows_ = num_logit_rows;
  const auto floats = static_cast<size_t>(num_logit_rows) * sizeof(float);
  last_.reserve_discarding(floats * static_cast<size_t>(context_.config->hidden_size));
  logits_.reserve_discarding(floats * static_cast<size_t>(context_.config->vocab_size));
  picker_.reserve(num_logit_rows);
  graphs_.clear();
}

// Decode steps are filled up to one of few sizes, so that few graphs serve all. Each token of
// padding has a place of its own on the cache's scratch page.
const Batch& Forward::padded(const Batch& batch) {
  const int64_t real = batch.num_tokens();
  const bool decodes = batch.num_logit_rows() == real;
  const int64_t most = std::min(moe_.path().max_captured_tokens(), context_.max_tokens);
  const int64_t size = real <= 8 ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(real)))
                                 : (real + 7) / 8 * 8;
  if (!decodes || real == 0 || size > most) return batch;
  padded_ = batch;
  for (int64_t i = real; i < size; ++i) {
    const auto position = static_cast<int32_t>((i - real) % kTile);
    padded_.ids.push_back(0);
    padded_.positions.push_back(position);
    padded_.sequences.push_back(-1);
    padded_.rows.push_back({context_.cache->scratch_table(), position});
    padded_.logit_rows.push_back({.token = static_cast<int32_t>(i)});
  }
  return padded_;
}

// "step[DECODE bs=4]": only while it is traced.
const char* Forward::step_name(const Batch& batch) const {
  if (stages_.trace() == nullptr) return nullptr;
  int64_t num_sequences = 0;
  for (size_t t = 0; t < batch.sequences.size(); ++t) {
    if (t == 0 || batch.sequences[t] != batch.sequences[t - 1]) ++num_sequences;
  }
  const int64_t tokens = batch.num_tokens();
  const bool decodes = batch.num_logit_rows() == tokens && num_sequences == tokens;
  const std::string kind = decodes ? "DECODE" : "PREFILL";
  const std::string more = decodes ? "" : " tokens=" + std::to_string(tokens);
  return stages_.trace()->name_of("step[" + kind + " bs=" + std::to_string(num_sequences) + more +
                                  "]");
}

std::span<const StepRow> Forward::run(const Batch& batch, int64_t step_timeout_ms) {
  check(batch.num_tokens() <= context_.max_tokens, "step of ", batch.num_tokens(),
        " tokens, want at most ", context_.max_tokens);
  const NamedRange range(*context_.device, "step");
  const TraceSpan span(stages_.trace(), step_name(batch));
  Stream& stream = *context_.stream;
  const Batch& step = padded(batch);
  inputs_.set(step, batch.num_tokens(), stream);
  reserve_logit_rows(step.num_logit_rows());
  picker_.begin_step(batch.logit_rows);
  ExpertPath& path = moe_.path();
  do {
    path.begin_step(batch, step, stream);
    const auto key = path.graph_key();
    const bool is_captured = replays_ && key && &step == &padded_;
    const auto all = [&] { enqueue(step, step_timeout_ms); };
    if (is_captured) {
      graphs_.run({step.num_tokens(), inputs_.max_position(), *key, inputs_.picks()}, stream, all);
    } else {
      all();
    }
    picker_.fetch(batch.logit_rows, logits_.as<float>());
  } while (!path.end_step(Deadline::after_ms(step_timeout_ms), *context_.stream));
  return picker_.take(batch.logit_rows);
}

void Forward::enqueue(const Batch& batch, int64_t step_timeout_ms) {
  embed(batch);
  for (int l = 0; l < context_.config->num_layers; ++l) layer(l, batch, step_timeout_ms);
  if (stages_.trace() != nullptr) stages_.trace()->set_layer(-1);
  logits(batch);
}

void Forward::norm(const Buffer& x, const WeightVector& weight, int64_t num_rows, Buffer& out) {
  const int64_t width = context_.config->hidden_size;
  context_.ops->rms_norm({.x = x.as<float>(),
                          .weight = weight.data(),
                          .out = out.as<float>(),
                          .num_rows = num_rows,
                          .width = width,
                          .x_stride = width,
                          .out_stride = width,
                          .eps = context_.config->rms_norm_eps},
                         *context_.stream);
}

void Forward::embed(const Batch& batch) {
  const StageTimer timer(stages_, Stage::kEmbed, *context_.device);
  context_.ops->embed({.table = context_.weights->embedding.view,
                       .ids = inputs_.ids(),
                       .out = hidden_.as<float>(),
                       .num_tokens = batch.num_tokens()},
                      *context_.stream);
  rope_.compute(batch);
}

void Forward::layer(int l, const Batch& batch, int64_t step_timeout_ms) {
  const LayerWeights& w = context_.weights->layers[static_cast<size_t>(l)];
  if (stages_.trace() != nullptr) stages_.trace()->set_layer(l);
  const TraceSpan span(stages_.trace(), "layer");
  attend(l, w, batch);
  if (context_.config->layer_is_moe[static_cast<size_t>(l)]) {
    {
      const StageTimer timer(stages_, Stage::kRouter, *context_.device);
      norm(hidden_, w.mlp_norm, batch.num_tokens(), normed_);
    }
    moe_.run(l, batch, normed_.as<float>(), Deadline::after_ms(step_timeout_ms),
             hidden_.as<float>());
  } else {
    dense(w, batch);
  }
}

void Forward::attend(int l, const LayerWeights& w, const Batch& batch) {
  const StageTimer timer(stages_, Stage::kAttention, *context_.device);
  norm(hidden_, w.attention_norm, batch.num_tokens(), normed_);
  if (context_.config->attention.kind == AttentionKind::kLatent) {
    latent_.run(l, batch, normed_.as<float>(), rope_, hidden_.as<float>());
  } else {
    grouped_.run(l, batch, normed_.as<float>(), rope_, hidden_.as<float>());
  }
}

void Forward::dense(const LayerWeights& w, const Batch& batch) {
  const StageTimer timer(stages_, Stage::kDenseMlp, *context_.device);
  auto* normed = normed_.as<float>();
  norm(hidden_, w.mlp_norm, batch.num_tokens(), normed_);
  // normed is read before it is written: the last product of the MLP reads its own scratch.
  mlp_.run(w.dense, normed, batch.num_tokens(), normed);
  context_.ops->add({.x = hidden_.as<float>(),
                     .other = normed,
                     .count = batch.num_tokens() * context_.config->hidden_size},
                    *context_.stream);
}

void Forward::logits(const Batch& batch) {
  const int64_t num_rows = batch.num_logit_rows();
  if (num_rows == 0) return;
  const StageTimer timer(stages_, Stage::kHead, *context_.device);
  const int64_t hidden = context_.config->hidden_size;
  context_.ops->gather_rows({.x = hidden_.as<float>(),
                             .row = inputs_.logit_rows(),
                             .out = last_.as<float>(),
                             .num_rows = num_rows,
                             .width = hidden},
                            *context_.stream);
  norm(last_, context_.weights->final_norm, num_rows, last_);
  linear_.read(last_.as<float>(), num_rows, hidden, hidden);
  linear_.multiply(context_.weights->head(), logits_.as<float>());
  picker_.pick(logits_.as<float>(), num_rows);
}

}  // namespace colibri
