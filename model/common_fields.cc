#include "model/common_fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/checkpoint.h"
#include "model/printable.h"

namespace colibri {
namespace {

// Keys of transformers' base class and of older releases that change nothing in a forward pass.
void mark_generic_keys(JsonFields& fields) {
  fields.without_effect({"architectures",
                         "model_type",
                         "transformers_version",
                         "auto_map",
                         "_name_or_path",
                         "name_or_path",
                         "_commit_hash",
                         "attention_dropout",
                         "attn_implementation",
                         "_attn_implementation",
                         "experts_implementation",
                         "_experts_implementation",
                         "_attn_implementation_autoset",
                         "initializer_range",
                         "output_router_logits",
                         "router_aux_loss_coef",
                         "aux_loss_alpha",
                         "seq_aux",
                         "output_hidden_states",
                         "output_attentions",
                         "return_dict",
                         "use_return_dict",
                         "chunk_size_feed_forward",
                         "use_cache",
                         "pad_token_id",
                         "sep_token_id",
                         "decoder_start_token_id",
                         "tokenizer_class",
                         "prefix",
                         "id2label",
                         "label2id",
                         "num_labels",
                         "problem_type",
                         "finetuning_task",
                         "task_specific_params",
                         "torchscript",
                         "use_bfloat16",
                         "tf_legacy_loss",
                         "is_decoder",
                         "cross_attention_hidden_size",
                         "tie_encoder_decoder",
                         "pretraining_tp",
                         "ep_size",
                         "tie_last_hidden_states",
                         "attn_bias_init",
                         "embd_pdrop",
                         "resid_pdrop"});
  // Sampling keys: transformers takes them from generation_config.json only.
  fields.without_effect({"max_length",
                         "max_new_tokens",
                         "min_length",
                         "do_sample",
                         "early_stopping",
                         "num_beams",
                         "temperature",
                         "top_k",
                         "top_p",
                         "typical_p",
                         "repetition_penalty",
                         "length_penalty",
                         "no_repeat_ngram_size",
                         "encoder_no_repeat_ngram_size",
                         "bad_words_ids",
                         "num_return_sequences",
                         "output_scores",
                         "return_dict_in_generate",
                         "forced_bos_token_id",
                         "forced_eos_token_id",
                         "remove_invalid_values",
                         "exponential_decay_length_penalty",
                         "suppress_tokens",
                         "begin_suppress_tokens",
                         "epsilon_cutoff",
                         "eta_cutoff",
                         "encoder_repetition_penalty",
                         "num_beam_groups",
                         "diversity_penalty"});
}

// The one quantised form of released files that is read: FP8 with a scale a block.
constexpr const char* kReadForm =
    "quantised checkpoints are read when quant_method is fp8, fmt e4m3, activation_scheme dynamic "
    "and weight_block_size [128, 128]; else use the unquantised release of the model";

void want_word(JsonFields& fields, std::string_view key, const std::string& only) {
  if (fields.has(key) && fields.string_or(key, only) != only) fields.unsupported(key, kReadForm);
  fields.without_effect({key});
}

// True when quantization_config describes such FP8 weights, false when there is none; every other
// form is refused. Which tensors are FP8 is said by the files; here the keys need only make sense.
bool read_fp8_form(JsonFields& fields) {
  const JsonValue* value = fields.find("quantization_config");
  if (value == nullptr || value->kind == JsonKind::kNull) return false;
  JsonFields form(*value, fields.where() + ": quantization_config");
  if (form.string_or("quant_method", "") != "fp8") form.unsupported("quant_method", kReadForm);
  want_word(form, "fmt", "e4m3");
  want_word(form, "activation_scheme", "dynamic");
  want_word(form, "expert_dtype", "fp8");
  const std::vector<int64_t> block = form.ints("weight_block_size", kSizeRange);
  if (block != std::vector<int64_t>{kScaleBlock, kScaleBlock}) {
    std::string got;
    for (const int64_t size : block) got += (got.empty() ? "" : ", ") + std::to_string(size);
    fail(ErrorKind::kUnsupported, form.where(), ": weight_block_size is ",
         block.empty() ? "absent or null" : "[" + got + "]", ": ", kReadForm);
  }
  if (!form.strings("modules_to_convert").empty()) {
    form.unsupported("modules_to_convert", "more than the projections in FP8 is not supported");
  }
  form.strings("modules_to_not_convert");
  form.strings("ignored_layers");
  // How activations are rounded elsewhere, and how the scales were chosen: their type is checked.
  form.without_effect({"scale_fmt", "dequantize"});
  form.refuse_unread();
  return true;
}

void refuse_other_architectures(JsonFields& fields) {
  if (fields.bool_or("is_encoder_decoder", false)) {
    fields.unsupported("is_encoder_decoder", "only decoders are supported");
  }
  if (fields.bool_or("add_cross_attention", false)) {
    fields.unsupported("add_cross_attention", "cross attention is not supported");
  }
  for (const char* key : {"per_layer_config", "pruned_heads", "text_config"}) {
    const JsonValue* value = fields.find(key);
    const bool is_empty =
        value == nullptr || value->kind == JsonKind::kNull || value->items.empty();
    if (!is_empty) fields.unsupported(key, "this form of model is not supported");
  }
  const std::string act = fields.string_or("hidden_act", "silu");
  if (act != "silu" && act != "swish") {
    fields.unsupported("hidden_act", "the only activation here is silu");
  }
}

DType read_dtype(JsonFields& fields) {
  std::string key = fields.has("dtype") ? "dtype" : "torch_dtype";
  fields.without_effect({"dtype", "torch_dtype"});
  if (!fields.has(key)) return DType::kBF16;
  std::string name = fields.string_or(key, "");
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "float32" || name == "float") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16" || name == "half") return DType::kF16;
  fields.unsupported(key,
                     "weights here are float32, bfloat16 or float16, and FP8 ones are described by "
                     "quantization_config");
}

// Absent ids are none: transformers takes those of its class for no generation.
void read_special_ids(JsonFields& fields, ModelConfig& config) {
  const IntRange ids{0, config.vocab_size - 1};
  for (const int64_t id : fields.ints("eos_token_id", ids)) {
    config.eos_ids.push_back(static_cast<int32_t>(id));
  }
  config.bos_id = static_cast<int32_t>(fields.optional_int("bos_token_id", ids).value_or(-1));
  fields.optional_int("pad_token_id", {-config.vocab_size, ids.max});  // no effect, but checked
}

void read_heads(JsonFields& fields, const ClassDefaults& defaults, ModelConfig& config) {
  constexpr IntRange kHeads{1, 1 << 14};
  AttentionConfig& attention = config.attention;
  attention.num_heads = fields.int_or("num_attention_heads", defaults.num_heads, kHeads);
  attention.num_kv_heads =
      defaults.null_kv_heads && fields.find("num_key_value_heads") != nullptr
          ? fields.optional_int("num_key_value_heads", kHeads).value_or(0)
          : fields.int_or("num_key_value_heads", defaults.num_kv_heads, kHeads);
  if (attention.num_kv_heads == 0) attention.num_kv_heads = attention.num_heads;
  if (attention.num_heads % attention.num_kv_heads != 0) {
    fail(ErrorKind::kInput, fields.where(), ": num_attention_heads ", attention.num_heads,
         " is not a multiple of num_key_value_heads ", attention.num_kv_heads);
  }
}

}  // namespace

void read_common(JsonFields& fields, const ClassDefaults& defaults, ModelConfig& config) {
  refuse_other_architectures(fields);
  config.vocab_size = fields.int_or("vocab_size", defaults.vocab_size, {1, 1 << 24});
  config.hidden_size = fields.int_or("hidden_size", defaults.hidden_size, {1, 1 << 20});
  config.num_layers =
      static_cast<int>(fields.int_or("num_hidden_layers", defaults.num_layers, kLayerRange));
  config.rms_norm_eps =
      static_cast<float>(fields.real_or("rms_norm_eps", defaults.rms_norm_eps, {0, 1}));
  config.max_positions =
      fields.int_or("max_position_embeddings", defaults.max_positions, {1, (int64_t{1} << 31) - 1});
  config.tied_embeddings = fields.bool_or("tie_word_embeddings", false);
  config.checkpoint_dtype = read_dtype(fields);
  if (read_fp8_form(fields)) config.checkpoint_dtype = DType::kF8E4M3;
  read_special_ids(fields, config);
  read_heads(fields, defaults, config);
  mark_generic_keys(fields);
}

void read_head_dim(JsonFields& fields, bool null_is_absent, ModelConfig& config) {
  constexpr IntRange kHeadDim{1, 1 << 14};
  AttentionConfig& attention = config.attention;
  const bool is_given = fields.has("head_dim") || (fields.find("head_dim") && !null_is_absent);
  if (is_given) {
    attention.head_dim = fields.int_or("head_dim", 0, kHeadDim);
    return;
  }
  if (config.hidden_size % attention.num_heads != 0) {
    fail(ErrorKind::kInput, fields.where(), ": hidden_size ", config.hidden_size,
         " is not a multiple of num_attention_heads ", attention.num_heads,
         " and no head_dim is given");
  }
  attention.head_dim = config.hidden_size / attention.num_heads;
}

void read_plain_rope(JsonFields& fields, RopeDefaults defaults, ModelConfig& config) {
  AttentionConfig& attention = config.attention;
  defaults.head_dim = attention.head_dim;
  defaults.max_positions = config.max_positions;
  attention.rope = read_rope(fields, defaults).rope;
  attention.softmax_scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
}

void read_expert_count(JsonFields& fields, std::string_view key, std::string_view alias,
                       int64_t fallback, ModelConfig& config) {
  const int64_t count = fields.int_or(key, fallback, kExpertRange);
  const int64_t other = fields.int_or(alias, count, kExpertRange);
  if (fields.has(key) && other != count) {
    fail(ErrorKind::kInput, fields.where(), ": ", key, " is ", count, " but ", alias, " is ", other,
         "; they mean the same and must agree");
  }
  config.num_experts = static_cast<int>(other);
}

void read_top_k(JsonFields& fields, int64_t fallback, ModelConfig& config) {
  config.top_k = static_cast<int>(fields.int_or("num_experts_per_tok", fallback, kExpertRange));
  if (config.top_k > config.num_experts) {
    fail(ErrorKind::kInput, fields.where(), ": num_experts_per_tok is ", config.top_k,
         ", want at most the number of experts, ", config.num_experts);
  }
}

void read_sparse_step_layers(JsonFields& fields, ModelConfig& config) {
  const int64_t step = fields.int_or("decoder_sparse_step", 1, {1, int64_t{1} << 31});
  const JsonValue* list = fields.find("mlp_only_layers");
  if (list != nullptr && list->kind == JsonKind::kInteger) {
    fields.wrong("mlp_only_layers", "a list of layer numbers");
  }
  const std::vector<int64_t> dense = fields.ints("mlp_only_layers", {0, config.num_layers - 1});
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const bool is_dense = std::find(dense.begin(), dense.end(), layer) != dense.end();
    config.layer_is_moe.push_back(!is_dense && (layer + 1) % step == 0);
  }
}

void refuse_other_layer_types(JsonFields& fields, const ModelConfig& config) {
  const std::vector<std::string> types = fields.strings("layer_types");
  if (types.empty()) return;
  if (types.size() != static_cast<size_t>(config.num_layers)) {
    fields.wrong("layer_types",
                 "one entry for each of the " + std::to_string(config.num_layers) + " layers");
  }
  for (const std::string& type : types) {
    if (type == "full_attention" || type == "attention") continue;
    fields.unsupported("layer_types",
                       printable(type, 40) + " is not supported, only full_attention is");
  }
}

}  // namespace colibri
