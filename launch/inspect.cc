#include "launch/inspect.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "base/units.h"
#include "launch/session_setup.h"
#include "model/checkpoint.h"
#include "model/checkpoint_files.h"
#include "model/container.h"
#include "model/weight_loader.h"
#include "topology/placement_file.h"

namespace colibri {
namespace {

std::string attention_text(const AttentionConfig& a) {
  if (a.kind == AttentionKind::kLatent) {
    return fmt::format("latent, {} heads, q rank {}, kv rank {}, head {} + {} rotary, value {}",
                       a.num_heads, a.q_lora_rank, a.kv_lora_rank, a.qk_nope_head_dim,
                       a.qk_rope_head_dim, a.v_head_dim);
  }
  return fmt::format("grouped-query, {} heads, {} kv heads, head {}, rotary {}", a.num_heads,
                     a.num_kv_heads, a.head_dim, a.rope.rotary_dim);
}

std::string router_text(const ModelConfig& c) {
  const RouterConfig& r = c.router;
  std::string text =
      fmt::format("{}, top {} of {}", r.score == RouterScore::kSoftmax ? "softmax" : "sigmoid",
                  c.top_k, c.num_experts);
  if (r.selection_bias) text += ", selection bias";
  if (r.num_groups > 1) text += fmt::format(", {} of {} groups", r.top_groups, r.num_groups);
  if (r.renormalise) text += ", renormalised";
  if (r.scale != 1) text += fmt::format(", scaled by {}", r.scale);
  return text;
}

// "model.layers.61.a: why" and "model.layers.61.b: why" -> "model.layers.61.* (2 tensors): why".
std::vector<std::string> grouped_by_layer(const std::vector<std::string>& ignored) {
  const auto group_of = [](const std::string& entry) -> std::string {
    constexpr std::string_view kLayers = "model.layers.";
    const size_t end = entry.find('.', kLayers.size());
    const size_t reason = entry.find(": ");
    if (entry.rfind(kLayers, 0) != 0 || end > reason || reason == std::string::npos) return entry;
    return entry.substr(0, end) + ".*" + entry.substr(reason);
  };
  std::vector<std::string> lines;
  std::map<std::string, int> counts;
  for (const std::string& entry : ignored) ++counts[group_of(entry)];
  for (const std::string& entry : ignored) {
    const std::string group = group_of(entry);
    int& count = counts[group];
    if (count == 0) continue;  // told already
    const size_t star = group.find(".*");
    lines.push_back(count == 1 ? entry
                               : group.substr(0, star + 2) + fmt::format(" ({} tensors)", count) +
                                     group.substr(star + 2));
    count = 0;
  }
  return lines;
}

std::string shape_text(const Checkpoint& checkpoint, const ModelShape& shape) {
  const ModelConfig& c = checkpoint.config();
  const CheckpointSummary& s = checkpoint.summary();
  std::string dtypes;
  for (const std::string& dtype : s.dtypes) dtypes += (dtypes.empty() ? "" : ", ") + dtype;
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("family", c.family);
  line("files", fmt::format("{}, {} tensors, {}, stored as {}", s.num_files, s.num_tensors,
                            format_bytes(static_cast<int64_t>(s.total_bytes)), dtypes));
  if (c.dense_dtype && c.wide_dtype) {
    line("container", fmt::format("version {}, experts {}, projections {}, embeddings {}",
                                  kContainerVersion, to_string(c.checkpoint_dtype),
                                  to_string(*c.dense_dtype), to_string(*c.wide_dtype)));
  }
  line("layers", fmt::format("{}, {} of them with experts", c.num_layers, shape.num_moe_layers()));
  line("hidden", fmt::format("{}, vocabulary {}{}", c.hidden_size, c.vocab_size,
                             c.tied_embeddings ? ", tied embeddings" : ""));
  line("attention", attention_text(c.attention));
  line("router", router_text(c));
  line("experts",
       fmt::format("{} a layer, width {}, {} each, {} in all", c.num_experts, c.expert_width,
                   format_bytes(shape.expert_bytes),
                   format_bytes(shape.expert_bytes * c.num_experts * shape.num_moe_layers())));
  if (c.shared_width > 0) {
    line("shared", fmt::format("width {}{}", c.shared_width, c.shared_gate ? ", gated" : ""));
  }
  line("other", format_bytes(shape.coordinator_weight_bytes) + " of weights on the coordinator");
  line("KV cache", format_bytes(shape.kv_bytes_per_token) + " a token");
  line("context", fmt::format("{} positions", c.max_positions));
  line("fingerprint", checkpoint.fingerprint());
  for (const std::string& ignored : grouped_by_layer(s.ignored)) line("ignored", ignored);
  return text;
}

std::string placement_summary(const ModelShape& shape, const RunConfig& config) {
  PlacementOptions options;
  options.num_ranks = config.inspect.for_ranks;
  options.coordinator_experts = config.common.coordinator_experts;
  const Placement placement =
      make_placement(parse_placement_option(config.common.placement), shape, options);
  std::string text = fmt::format("{:<12} {} (the model of placement files)\n{}\n", "shape",
                                 shape.fingerprint, describe(placement));
  for (int rank = 0; rank < placement.num_ranks(); ++rank) {
    const int64_t bytes = placement.num_slots(rank) * shape.expert_bytes +
                          (rank == 0 ? shape.coordinator_weight_bytes : 0);
    text += fmt::format("rank {:<7} {} experts, {} of weights{}\n", rank, placement.num_slots(rank),
                        format_bytes(bytes), rank == 0 ? ", coordinator" : "");
  }
  return text;
}

// Names what is damaged, at most a few.
std::string damage_text(const std::vector<std::string>& damaged) {
  constexpr size_t kMostNames = 5;
  std::string text;
  for (size_t i = 0; i < damaged.size() && i < kMostNames; ++i) {
    text += (i > 0 ? "; " : "") + damaged[i];
  }
  if (damaged.size() > kMostNames)
    text += fmt::format("; and {} more", damaged.size() - kMostNames);
  return text;
}

// Fails naming the parts whose bytes differ from their checksums.
std::string verify(const Checkpoint& checkpoint) {
  const std::string path = checkpoint.path().string();
  if (!is_container_file(path)) {
    fail(ErrorKind::kUnsupported, path, ": a Hugging Face directory holds no checksums; --verify ",
         "reads .colibri files (`colibri convert` writes them)");
  }
  ThreadPool pool({.num_threads = static_cast<int>(allowed_cpus().size()), .spin = false});
  Progress progress("verifying", checkpoint.summary().total_bytes, stderr_progress());
  const std::vector<std::string> damaged =
      damaged_parts(path, pool, [&](uint64_t bytes) { progress.add(bytes); });
  progress.finish();
  if (damaged.empty()) {
    return fmt::format("{:<12} every byte matches its checksum\n", "verified");
  }
  fail(ErrorKind::kInput, path, ": does not match its checksum: ", damage_text(damaged),
       "; the file is damaged: copy or convert it again");
}

}  // namespace

int inspect(const RunConfig& config) {
  const Checkpoint checkpoint = Checkpoint::open(config.common.model);
  const WeightFormats formats =
      parse_weight_formats(config.common.weights, config.common.dense_weights);
  const ModelShape shape =
      model_shape(checkpoint.config(), formats, parse_kv_dtype(config.common.kv_dtype));
  std::string text = shape_text(checkpoint, shape);
  if (config.inspect.for_ranks > 0) text += placement_summary(shape, config);
  if (config.inspect.verify) text += verify(checkpoint);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace colibri
