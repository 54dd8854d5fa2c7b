#include "model/tensor_match.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "model/printable.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

struct EntryIdx {
  int file_idx, entry_idx;
};

std::string shape_text(const WantedShape& shape) {
  std::string text("[");
  if (!shape.is_vector) text.append(std::to_string(shape.rows)).append(", ");
  return text.append(std::to_string(shape.cols)).append("]");
}

TensorDims make_dims(std::initializer_list<int64_t> sizes) {
  TensorDims dims;
  for (const int64_t size : sizes) dims.size[static_cast<size_t>(dims.rank++)] = size;
  return dims;
}

size_t common_ends(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t front = 0, back = 0;
  while (front < limit && a[front] == b[front]) ++front;
  while (back < limit - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  return front + back;
}

// Which key of config.json would have asked for a tensor that nobody asked for.
const char* contradicted_key(std::string_view name) {
  if (name.ends_with(kScaleSuffix)) return "; it scales no FP8 weight in use";
  const bool is_attention = name.find(".self_attn.") != std::string_view::npos;
  if (is_attention && name.ends_with(".bias")) {
    return "; config.json says there are no such biases (attention_bias, qkv_bias)";
  }
  if (is_attention && name.find("_norm.") != std::string_view::npos) {
    return "; config.json says there are no such norms (use_qk_norm)";
  }
  return "";
}

class Matcher {
 public:
  Matcher(const ModelConfig& config, const std::vector<SafetensorsFile>& files,
          const std::string& where)
      : config_(config), files_(files), where_(where) {}

  TensorMatch run(const std::vector<std::pair<std::string, int>>& weight_map) {
    collect_names();
    check_index(weight_map);
    const MoeNaming& any = moe_namings(config_.family)[0];
    for (const TensorRole role : global_roles(config_)) match_one(role, -1, any);
    if (config_.tied_embeddings) {
      const TensorPlace embedding = match_.places.at(pack_key({TensorRole::kEmbedding, -1, -1}));
      match_.places.emplace(pack_key({TensorRole::kLmHead, -1, -1}), embedding);
    }
    for (int layer = 0; layer < config_.num_layers; ++layer) match_layer(layer);
    account_for_rest();
    check_form_is_used();
    return std::move(match_);
  }

 private:
  const SafetensorsEntry& entry(EntryIdx at) const {
    return files_[static_cast<size_t>(at.file_idx)].entries()[static_cast<size_t>(at.entry_idx)];
  }
  const std::string& path(EntryIdx at) const {
    return files_[static_cast<size_t>(at.file_idx)].path();
  }

  void collect_names() {
    size_t total = 0;
    for (const SafetensorsFile& file : files_) total += file.entries().size();
    names_.reserve(total);
    match_.places.reserve(total);
    for (size_t f = 0; f < files_.size(); ++f) {
      const auto& entries = files_[f].entries();
      is_used_.emplace_back(entries.size(), false);
      for (size_t i = 0; i < entries.size(); ++i) {
        const EntryIdx at{static_cast<int>(f), static_cast<int>(i)};
        add_name(entries[i], at);
      }
    }
  }

  void add_name(const SafetensorsEntry& added, EntryIdx at) {
    const auto [found, is_new] = names_.emplace(added.name, at);
    if (!is_new) {
      fail(ErrorKind::kInput, where_, ": tensor \"", printable(added.name), "\" stands in ",
           path(found->second), " and in ", path(at), "; want it once");
    }
    const std::string form = quantised_form(added.name);
    if (!form.empty() && reason_to_ignore(added.name, true, config_).empty()) {
      fail(ErrorKind::kUnsupported, path(at), ": tensor \"", printable(added.name), "\": ", form,
           "; use the unquantised release of the model");
    }
  }

  // Every tensor of the index must be in the file it is said to be in.
  void check_index(const std::vector<std::pair<std::string, int>>& weight_map) const {
    for (const auto& [tensor, file_idx] : weight_map) {
      const auto found = names_.find(tensor);
      if (found != names_.end() && found->second.file_idx == file_idx) continue;
      fail(ErrorKind::kInput, path({file_idx, 0}), ": no tensor \"", printable(tensor),
           "\", but the index says it is in this file");
    }
  }

  void match_layer(int layer) {
    const auto namings = moe_namings(config_.family);
    const MoeNaming* naming = &namings[0];
    for (const MoeNaming& candidate : namings) {
      if (has_moe(candidate, layer)) {
        naming = &candidate;
        break;
      }
    }
    for (const TensorRole role : layer_roles(config_, layer)) match_one(role, layer, *naming);
    if (!config_.layer_is_moe[static_cast<size_t>(layer)]) return;
    const bool is_split = has(split_expert_name(*naming, TensorRole::kExpertGate, layer, 0)) ||
                          !has(packed_expert_name(*naming, TensorRole::kExpertGate, layer));
    if (is_split) {
      match_split_experts(layer, *naming);
    } else {
      match_packed_experts(layer, *naming);
    }
  }

  bool has(const std::string& name) const { return names_.count(name) != 0; }
  bool has_moe(const MoeNaming& naming, int layer) const {
    return has(tensor_name(config_.family, TensorRole::kRouter, layer, naming)) &&
           (has(split_expert_name(naming, TensorRole::kExpertGate, layer, 0)) ||
            has(packed_expert_name(naming, TensorRole::kExpertGate, layer)));
  }

  void match_one(TensorRole role, int layer, const MoeNaming& naming) {
    const WantedShape wanted = wanted_shape(config_, role);
    const EntryIdx at = require(tensor_name(config_.family, role, layer, naming), wanted, role);
    place_whole({role, layer, -1}, at, wanted);
  }

  void match_split_experts(int layer, const MoeNaming& naming) {
    for (int expert = 0; expert < config_.num_experts; ++expert) {
      for (const TensorRole role : kExpertRoles) {
        const WantedShape wanted = wanted_shape(config_, role);
        const EntryIdx at = require(split_expert_name(naming, role, layer, expert), wanted, role);
        const BlockScales scales = place_whole({role, layer, expert}, at, wanted);
        match_.expert_bytes += entry(at).size_bytes + scales.size_bytes;
      }
    }
  }

  void match_packed_experts(int layer, const MoeNaming& naming) {
    const int64_t e = config_.num_experts, h = config_.hidden_size, i = config_.expert_width;
    const EntryIdx gate_up = require_packed(
        packed_expert_name(naming, TensorRole::kExpertGate, layer), make_dims({e, 2 * i, h}));
    const EntryIdx down = require_packed(packed_expert_name(naming, TensorRole::kExpertDown, layer),
                                         make_dims({e, h, i}));
    for (int expert = 0; expert < config_.num_experts; ++expert) {
      place_part({TensorRole::kExpertGate, layer, expert}, gate_up, 2 * expert);
      place_part({TensorRole::kExpertUp, layer, expert}, gate_up, 2 * expert + 1);
      place_part({TensorRole::kExpertDown, layer, expert}, down, expert);
    }
  }

  EntryIdx require(const std::string& name, const WantedShape& wanted, TensorRole role) {
    const auto found = names_.find(name);
    if (found == names_.end()) fail_missing(name, shape_text(wanted), to_string(role));
    const TensorDims dims =
        wanted.is_vector ? make_dims({wanted.cols}) : make_dims({wanted.rows, wanted.cols});
    const EntryIdx at = found->second;
    if (entry(at).dims != dims) fail_shape(at, dims);
    use(at);
    if (is_fp8(at)) check_fp8(at, role);
    return at;
  }

  EntryIdx require_packed(const std::string& name, const TensorDims& wanted) {
    const auto found = names_.find(name);
    if (found == names_.end()) fail_missing(name, to_string(wanted), "packed experts");
    const EntryIdx at = found->second;
    if (entry(at).dims != wanted) {
      const TensorDims swapped = make_dims({wanted.size[0], wanted.size[2], wanted.size[1]});
      if (entry(at).dims == swapped) {
        fail(ErrorKind::kUnsupported, path(at), ": tensor \"", name, "\" has shape ",
             to_string(swapped), ": transposed packed experts are not supported, want ",
             to_string(wanted));
      }
      fail_shape(at, wanted);
    }
    if (is_fp8(at)) {
      fail(ErrorKind::kUnsupported, path(at), ": tensor \"", name, "\" is of type F8_E4M3: FP8 in ",
           "packed experts is not supported; want one matrix an expert, as the releases have it");
    }
    use(at);
    match_.expert_bytes += entry(at).size_bytes;
    return at;
  }

  void use(EntryIdx at) {
    const SafetensorsEntry& used = entry(at);
    if (!used.type->is_weight) {
      fail(ErrorKind::kUnsupported, path(at), ": tensor \"", used.name, "\" is of type ",
           used.type->name, ": this type is not supported; want F32, BF16, F16, or F8_E4M3 with ",
           "block scales");
    }
    match_.dtypes.insert(used.type->dtype);
    count_as_used(at);
  }

  void count_as_used(EntryIdx at) {
    is_used_[static_cast<size_t>(at.file_idx)][static_cast<size_t>(at.entry_idx)] = true;
    match_.used_bytes += entry(at).size_bytes;
    ++match_.num_used_entries;
  }

  bool is_fp8(EntryIdx at) const { return entry(at).type->dtype == DType::kF8E4M3; }

  void check_fp8(EntryIdx at, TensorRole role) const {
    if (!may_be_fp8(role)) {
      fail(ErrorKind::kUnsupported, path(at), ": tensor \"", entry(at).name, "\" (",
           to_string(role), ") is of type F8_E4M3; want it in F32, BF16 or F16: only projections, ",
           "experts and the output head may be FP8");
    }
    if (config_.checkpoint_dtype == DType::kF8E4M3) return;
    fail(ErrorKind::kInput, path(at), ": tensor \"", entry(at).name,
         "\" is of type F8_E4M3, but config.json has no quantization_config; want the one of the ",
         "release, with quant_method fp8 and weight_block_size [128, 128]");
  }

  // The scales of an FP8 weight; none for other types.
  BlockScales use_scales(EntryIdx weight, const WantedShape& shape) {
    if (!is_fp8(weight)) return {};
    const TensorDims wanted = make_dims({(shape.rows + kScaleBlock - 1) / kScaleBlock,
                                         (shape.cols + kScaleBlock - 1) / kScaleBlock});
    const std::string name = scale_name(entry(weight).name);
    const auto found = names_.find(name);
    if (found == names_.end()) {
      fail_missing(name, to_string(wanted), "one scale a block of 128 x 128 of an FP8 weight");
    }
    const EntryIdx at = found->second;
    const SafetensorsEntry& scales = entry(at);
    if (scales.dims != wanted) fail_shape(at, wanted);
    const DType dtype = scales.type->dtype;
    if (!scales.type->is_weight || (dtype != DType::kF32 && dtype != DType::kBF16)) {
      fail(ErrorKind::kUnsupported, path(at), ": tensor \"", name, "\" is of type ",
           scales.type->name, ": scales of FP8 weights are read in F32 or BF16");
    }
    count_as_used(at);
    return {.file_idx = at.file_idx,
            .offset_bytes = scales.offset_bytes,
            .size_bytes = scales.size_bytes,
            .dtype = dtype,
            .rows = wanted.size[0],
            .cols = wanted.size[1]};
  }

  // Weights that were widened, but whose config.json was not changed, are not what it describes.
  void check_form_is_used() const {
    if (config_.checkpoint_dtype != DType::kF8E4M3) return;
    if (match_.dtypes.count(DType::kF8E4M3) != 0) return;
    fail(ErrorKind::kInput, where_, ": config.json has a quantization_config of FP8 weights, but ",
         "no tensor in use is of type F8_E4M3; want the files of that release, or config.json "
         "without quantization_config");
  }

  BlockScales place_whole(const TensorKey& key, EntryIdx at, const WantedShape& wanted) {
    if (key.expert >= 0 && !match_.expert_dtype) match_.expert_dtype = entry(at).type->dtype;
    const BlockScales scales = use_scales(at, wanted);
    match_.places.emplace(pack_key(key),
                          TensorPlace{at.file_idx, at.entry_idx, entry(at).offset_bytes,
                                      entry(at).size_bytes, wanted.rows, wanted.cols, scales});
    return scales;
  }

  // Part `part_idx` of an entry that is cut into equal matrices.
  void place_part(const TensorKey& key, EntryIdx at, int part_idx) {
    const WantedShape shape = wanted_shape(config_, key.role);
    const SafetensorsEntry& whole = entry(at);
    if (!match_.expert_dtype) match_.expert_dtype = whole.type->dtype;
    const uint64_t bytes =
        static_cast<uint64_t>(shape.rows * shape.cols) * size_of(whole.type->dtype);
    match_.places.emplace(pack_key(key),
                          TensorPlace{at.file_idx,
                                      at.entry_idx,
                                      whole.offset_bytes + static_cast<uint64_t>(part_idx) * bytes,
                                      bytes,
                                      shape.rows,
                                      shape.cols,
                                      {}});
  }

  void account_for_rest() {
    std::string surplus, hint;
    int num_surplus = 0;
    for (size_t f = 0; f < files_.size(); ++f) {
      const auto& entries = files_[f].entries();
      for (size_t i = 0; i < entries.size(); ++i) {
        if (is_used_[f][i]) continue;
        if (ignore(entries[i], {static_cast<int>(f), static_cast<int>(i)})) continue;
        if (hint.empty()) hint = contradicted_key(entries[i].name);
        if (++num_surplus > 5) continue;
        surplus.append(num_surplus > 1 ? ", \"" : "\"").append(printable(entries[i].name));
        surplus.append("\" ").append(to_string(entries[i].dims));
        surplus.append(" in ").append(files_[f].path());
      }
    }
    if (num_surplus == 0) return;
    fail(ErrorKind::kInput, where_, ": ", num_surplus,
         num_surplus == 1 ? " tensor is" : " tensors are", " neither used by ", config_.family,
         " as config.json describes it nor known to be left out: ", surplus,
         num_surplus > 5 ? ", ..." : "", hint);
  }

  bool ignore(const SafetensorsEntry& left, EntryIdx at) {
    if (config_.tied_embeddings && left.name == "lm_head.weight") {
      match_.tied_head =
          TensorPlace{at.file_idx, at.entry_idx, left.offset_bytes, left.size_bytes, 0, 0, {}};
      match_.ignored.push_back("lm_head.weight: equal to the tied embedding");
      return true;
    }
    const std::string reason = reason_to_ignore(left.name, left.size_bytes > 0, config_);
    if (reason.empty()) return false;
    match_.ignored.push_back(left.name + ": " + reason);
    return true;
  }

  [[noreturn]] void fail_shape(EntryIdx at, const TensorDims& wanted) const {
    fail(ErrorKind::kInput, path(at), ": tensor \"", entry(at).name, "\" has shape ",
         to_string(entry(at).dims), ", want ", to_string(wanted), " as config.json describes ",
         config_.family);
  }

  [[noreturn]] void fail_missing(const std::string& name, const std::string& shape,
                                 const char* role) const {
    std::vector<std::pair<size_t, std::string_view>> near;
    for (const auto& [other, at] : names_) near.emplace_back(common_ends(name, other), other);
    const size_t num_shown = std::min<size_t>(3, near.size());
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(num_shown),
                      near.end(), [](const auto& a, const auto& b) {
                        return a.first != b.first ? a.first > b.first : a.second < b.second;
                      });
    std::string shown;
    for (size_t i = 0; i < num_shown; ++i) {
      shown.append(i == 0 ? "" : ", ").append(printable(near[i].second));
    }
    fail(ErrorKind::kInput, where_, ": tensor \"", name, "\" is missing, want it with shape ",
         shape, " (", role, ") as config.json describes ", config_.family,
         "; nearest names: ", shown.empty() ? "none" : shown);
  }

  const ModelConfig& config_;
  const std::vector<SafetensorsFile>& files_;
  const std::string& where_;
  std::unordered_map<std::string_view, EntryIdx> names_;
  std::vector<std::vector<bool>> is_used_;
  TensorMatch match_;
};

}  // namespace

uint64_t pack_key(const TensorKey& key) {
  return static_cast<uint64_t>(key.role) << 48 | static_cast<uint64_t>(key.layer + 1) << 24 |
         static_cast<uint64_t>(key.expert + 1);
}

TensorMatch match_tensors(const ModelConfig& config, const std::vector<SafetensorsFile>& files,
                          const std::vector<std::pair<std::string, int>>& weight_map,
                          const std::string& where) {
  return Matcher(config, files, where).run(weight_map);
}

}  // namespace colibri
