"""What each key of the six configuration classes does: tests/data/config_keys/<family>.json."""

import dataclasses
import json
import tempfile
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig

import checkpoint
import config_key_cases as key_cases

BASES = (
    "qwen3_moe_split",
    "mixtral_split",
    "olmoe_clip",
    "deepseek_v3_groups",
    "glm4_moe_partial",
    "qwen2_moe_shared",
)
PROMPT_IDS = [11, 3, 47, 60, 8, 33, 71, 3, 52, 19, 80, 26]
GENERATION_FIELDS = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
)


def declared_keys(model_type):
    """The configuration class's own arguments and those of its bases."""
    config_class = type(AutoConfig.for_model(model_type))
    return sorted(field.name for field in dataclasses.fields(config_class))


def patched(base, patch):
    merged = {**base, **patch}
    return {key: value for key, value in merged.items() if value is not key_cases.REMOVE}


def refusal(error):
    """The fields of a case that transformers refuses; a tensor of another shape is told apart."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = f"{type(error).__name__}: {' '.join(lines[:2])}"[:200]
    if "ignore_mismatched_sizes" in message:
        return {"outcome": "error", "reason": "shape"}
    return {"outcome": "error", "reason": "refused", "message": message}


def run(directory: Path, config, with_generation_config=True):
    """Loads the checkpoint of the directory with another configuration; returns (model, info, logits)."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in directory.glob("*.safetensors*"):
            (Path(scratch) / file.name).symlink_to(file)
        if with_generation_config:
            (Path(scratch) / "generation_config.json").symlink_to(
                directory / "generation_config.json"
            )
        (Path(scratch) / "config.json").write_text(json.dumps(config))
        model, info = checkpoint.load_checkpoint(Path(scratch), expect_complete=False)
        with torch.no_grad():
            ids = torch.tensor([PROMPT_IDS])
            logits = model(ids, use_cache=False, return_dict=True).logits[0, -1]
    return model, info, logits


def seven_digits(logits):
    return [float(f"{value:.7g}") for value in logits.tolist()]


def outcome(directory, config, base_logits, base_unused):
    """What transformers does, as the fields of a case."""
    try:
        model, info, logits = run(directory, config)
    except Exception as error:  # noqa: BLE001, any failure is a refusal and gets recorded
        return refusal(error)
    result = {}
    unused = sorted(set(info["unexpected_keys"]) - base_unused)
    if unused:
        result["unused_tensors"] = len(unused)
        result["first_unused_tensor"] = unused[0]
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        return {"outcome": "missing", "missing_tensors": missing[:4], **result}
    if logits.shape == base_logits.shape and torch.equal(logits, base_logits):
        return {"outcome": "same", **result}
    if not torch.isfinite(logits).all():
        return {"outcome": "error", "reason": "not finite", **result}
    return {"outcome": "different", **result, "logits": seven_digits(logits)}


def generation_effect(directory, config):
    """The generation settings that transformers derives, with and without generation_config.json."""
    effect = {}
    for with_file in (True, False):
        model, _, _ = run(directory, config, with_file)
        settings = {f: getattr(model.generation_config, f) for f in GENERATION_FIELDS}
        effect["with_generation_config" if with_file else "without_generation_config"] = settings
    return effect


def describe(key, patch):
    entry = {"key": key, "patch": {k: v for k, v in patch.items() if v is not key_cases.REMOVE}}
    if key in key_cases.INTERFACE_KEYS:
        entry["interface"] = True
    removed = [k for k, v in patch.items() if v is key_cases.REMOVE]
    return {**entry, "remove": removed} if removed else entry


def make_family(directory: Path, out: Path):
    base = json.loads((directory / "config.json").read_text())
    _, info, base_logits = run(directory, base)
    entries = []
    for key, patch in key_cases.cases(base, declared_keys(base["model_type"])):
        config = patched(base, patch)
        entry = describe(key, patch)
        entry.update(outcome(directory, config, base_logits, set(info["unexpected_keys"])))
        if key in key_cases.GENERATION_KEYS and entry["outcome"] == "same":
            entry["generation"] = generation_effect(directory, config)
        entries.append(entry)
    write_family(out / f"{base['model_type']}.json", directory, base, base_logits, entries)


def write_family(path, directory, base, base_logits, entries):
    head = {
        "transformers": transformers.__version__,
        "base": directory.name,
        "model_type": base["model_type"],
        "declared_keys": declared_keys(base["model_type"]),
        "prompt_ids": PROMPT_IDS,
        "base_logits": seven_digits(base_logits),
    }
    lines = ["{"]
    lines += [f'  "{key}": {json.dumps(value)},' for key, value in head.items()]
    lines += [
        '  "cases": [',
        ",\n".join("    " + json.dumps(entry) for entry in entries),
        "  ]",
        "}",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = {}
    for entry in entries:
        counts[entry["outcome"]] = counts.get(entry["outcome"], 0) + 1
    print(f"{path.name}: {path.stat().st_size // 1000} kB, {counts}", flush=True)


def make_config_keys(models: Path, out: Path):
    out.mkdir(parents=True, exist_ok=True)
    for name in BASES:
        make_family(models / name, out)
