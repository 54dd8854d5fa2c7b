"""Random weights for a variant, and the files of its checkpoint directory."""

import json
import re
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import fp8
from variant import COMMON, Variant

GAINS = {"lm_head": 2.0, "gate.weight": 2.5, "q_proj": 1.6, "k_proj": 1.6}
# Released checkpoints keep this tensor in f32 whatever the others are.
ALWAYS_FLOAT32 = "e_score_correction_bias"
LEGACY_DROPPED = ("transformers_version", "head_dim", "qk_head_dim", "layer_types")


def build_model(variant: Variant, seed: int):
    """A model in memory whose weights are random and already rounded to the variant's dtype."""
    config = AutoConfig.for_model(variant.model_type, **{**COMMON, **variant.config})
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager"
    ).eval()
    generator = torch.Generator().manual_seed(seed)
    tensors = dict(model.named_parameters())
    tensors.update((n, b) for n, b in model.named_buffers() if n.endswith(ALWAYS_FLOAT32))
    with torch.no_grad():
        for name in sorted(tensors):
            values = random_tensor(name, tensors[name].shape, variant, generator)
            if variant.fp8:
                values = fp8.rounded(name, values, generator)
            tensors[name].copy_(values.to(stored_dtype(name, variant)).float())
    return model


def random_tensor(name, shape, variant, generator):
    """Norms about 1, biases about 0, matrices scaled by their input width: logits well apart."""
    noise = torch.randn(shape, generator=generator)
    if name.endswith(ALWAYS_FLOAT32):
        mean, spread = variant.correction_bias
        return mean + spread * noise
    if name.endswith("bias"):
        return 0.3 * noise
    if noise.dim() == 1:
        return 1.0 + 0.25 * noise
    if "embed_tokens" in name:
        # A tied head would otherwise predict the input id again and again.
        return noise * (0.15 if variant.config.get("tie_word_embeddings") else 1.0)
    gain = next((g for key, g in GAINS.items() if key in name), 1.3)
    return gain * shape[-1] ** -0.5 * noise


def stored_dtype(name, variant):
    """Of FP8 weights: before they are quantised."""
    is_float32 = name.endswith(ALWAYS_FLOAT32) or (variant.fp8 and fp8.is_fp8(name))
    return torch.float32 if is_float32 else getattr(torch, variant.dtype)


def write_checkpoint(variant: Variant, model, directory: Path):
    """Writes config.json, generation_config.json and the weights as one file or as shards."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    tensors = named_tensors(variant, model, directory)
    add_extra_tensors(variant, model, tensors)
    tensors = {n: t.to(stored_dtype(n, variant)).contiguous().clone() for n, t in tensors.items()}
    if variant.fp8:
        tensors = fp8.released_tensors(tensors)
    write_shards(tensors, directory, variant.num_shards)
    write_json(directory / "config.json", config_json(variant, model.config))
    generation = {"bos_token_id": 1, "eos_token_id": list(variant.eos_ids), "do_sample": False}
    write_json(directory / "generation_config.json", generation)
    for file in directory.iterdir():
        file.chmod(0o644)


def named_tensors(variant, model, directory):
    """Tensors under the names of the file: those of transformers' modules if packed, else the split ones."""
    if variant.packed:
        tensors = dict(model.state_dict())
        if model.config.tie_word_embeddings:
            tensors.pop("lm_head.weight", None)
        return tensors
    model.save_pretrained(directory)
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    return tensors


def add_extra_tensors(variant, model, tensors):
    num_layers = model.config.num_hidden_layers
    if "tied_head" in variant.extra_tensors:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    if "inv_freq" in variant.extra_tensors:
        for layer in range(num_layers):
            name = f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"
            tensors[name] = model.model.rotary_emb.inv_freq
    if "mtp_layer" in variant.extra_tensors:
        last = f"model.layers.{num_layers - 1}."
        for name in [n for n in tensors if n.startswith(last) and ".experts." not in n]:
            tensors[name.replace(last, f"model.layers.{num_layers}.")] = tensors[name] * 0.5
        width = model.config.hidden_size
        tensors[f"model.layers.{num_layers}.eh_proj.weight"] = torch.zeros(width, 2 * width)


def write_shards(tensors, directory, num_shards):
    """Deals the tensors out in turn, so that one expert's matrices lie in different shards."""
    metadata = {"format": "pt"}
    if num_shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata=metadata)
        return
    names = sorted(tensors)
    weight_map = {}
    for shard in range(num_shards):
        file = f"model-{shard + 1:05d}-of-{num_shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[shard::num_shards]}
        save_file(part, directory / file, metadata=metadata)
        weight_map.update(dict.fromkeys(part, file))
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(directory / "model.safetensors.index.json", index)


def config_json(variant, config):
    values = json.loads(config.to_json_string())
    values["architectures"] = [type_name(variant.model_type)]
    values["dtype"] = variant.dtype
    return legacy_config(variant, values) if variant.legacy else values


def type_name(model_type):
    return {
        "qwen3_moe": "Qwen3MoeForCausalLM",
        "mixtral": "MixtralForCausalLM",
        "olmoe": "OlmoeForCausalLM",
        "deepseek_v3": "DeepseekV3ForCausalLM",
        "glm4_moe": "Glm4MoeForCausalLM",
        "qwen2_moe": "Qwen2MoeForCausalLM",
    }[model_type]


def legacy_config(variant, values):
    """The keys that transformers 4.x wrote: rope_theta and rope_scaling, torch_dtype, no derived keys."""
    rope = values.pop("rope_parameters")
    legacy = {k: v for k, v in values.items() if k not in LEGACY_DROPPED or k in variant.config}
    legacy["torch_dtype"] = legacy.pop("dtype")
    legacy["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        legacy["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if rope["rope_type"] != "default":
        rope["type"] = rope.pop("rope_type")
        legacy["rope_scaling"] = rope
    if variant.model_type == "qwen3_moe":
        legacy["num_experts"] = legacy.pop("num_local_experts")
    legacy.update(variant.legacy_extra)
    return dict(sorted(legacy.items()))


def write_json(path, value):
    text = json.dumps(value, indent=2) + "\n"
    # Lists of numbers on one line keep the files short.
    text = re.sub(r"\[\s+([-\d.,e\s]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    path.write_text(text, encoding="utf-8")


def load_variant(variant: Variant, directory: Path):
    """The checkpoint in f32. FP8 is widened here: the eager arithmetic of transformers takes no scales."""
    if not variant.fp8:
        return load_checkpoint(directory)
    with tempfile.TemporaryDirectory() as wide:
        fp8.write_widened(directory, Path(wide))
        return load_checkpoint(Path(wide))


def load_checkpoint(directory: Path, expect_complete=True):
    """The model as transformers reads it from the files, in f32. Raises if a tensor is missing."""
    model, info = AutoModelForCausalLM.from_pretrained(
        directory,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
    )
    if expect_complete and (info["missing_keys"] or info["mismatched_keys"]):
        raise RuntimeError(f"{directory}: transformers could not read all tensors: {info}")
    return model.eval(), info
