#!/usr/bin/env python3
"""Remakes the oracle fixtures: tests/data/models/, the demo model's expectations, tests/data/config_keys/."""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import transformers

import checkpoint
import config_keys
import demo_expectations
import expectations as oracle
from variants import VARIANTS

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "configs" / "models" / "demo"
MODELS = REPOSITORY / "tests" / "data" / "models"
CONFIG_KEYS = REPOSITORY / "tests" / "data" / "config_keys"
NUM_SEEDS = 24
# A fixture must not hang on rounding: these are far above f32 noise (about 1e-6 of the largest logit).
MIN_RELATIVE_MARGIN = 1e-3
MIN_ROUTER_MARGIN = 2e-5
MIN_DISTINCT_IDS = 6  # of the 32 greedy ones: a model that repeats itself shows little


def random_prompt(variant, seed):
    rng = random.Random(f"{variant.name}/{seed}")
    return [rng.randrange(variant.config["vocab_size"]) for _ in range(variant.prompt_tokens)]


def quality(values):
    """How far the fixture is from any other choice; above 1 is good enough, and more is better."""
    relative = values["min_margin"] / values["max_abs_logit"]
    safety = min(relative / MIN_RELATIVE_MARGIN, values["min_router_margin"] / MIN_ROUTER_MARGIN)
    return min(safety, 4.0) if len(set(values["greedy_ids"])) >= MIN_DISTINCT_IDS else 0.0


def best_seed(variant):
    """The seed with wide margins and a varied continuation."""

    def score(seed):
        model = checkpoint.build_model(variant, seed)
        return quality(oracle.expectations(model, random_prompt(variant, seed))[0])

    return max(range(NUM_SEEDS), key=score)


def check(variant, values, model, logits):
    """Stops if the fixture is not as awkward, or not as safe, as it claims to be."""
    if quality(values) < 1:
        raise RuntimeError(f"{variant.name}: margins are too small: {values}")
    prompt, new_ids = values["prompt_ids"], values["greedy_ids"]
    if oracle.greedy_by_generate(model, prompt, len(new_ids)) != new_ids:
        raise RuntimeError(f"{variant.name}: generate() gives other ids")
    if variant.correction_bias[1] and values["share_of_choices_changed_by_bias_or_groups"] < 0.3:
        raise RuntimeError(f"{variant.name}: the selection bias hardly changes the choice")
    other = [(prompt[0] + 1) % variant.config["vocab_size"]] + prompt[1:]
    change = oracle.forward(model, other)[-1].numpy() - logits[len(prompt) - 1]
    if np.abs(change).max() < 1e-3 * values["max_abs_logit"]:
        raise RuntimeError(f"{variant.name}: attention hardly reaches the first token")
    wide = oracle.teacher_forced(model.double(), prompt, new_ids).numpy()
    values["f32_error"] = float(np.abs(wide - logits).max() / values["max_abs_logit"])
    if values["f32_error"] > 1e-5:
        raise RuntimeError(f"{variant.name}: f32 rounding alone is {values['f32_error']}")


def make_variant(variant):
    directory = MODELS / variant.name
    seed = best_seed(variant)
    checkpoint.write_checkpoint(variant, checkpoint.build_model(variant, seed), directory)
    model, info = checkpoint.load_variant(variant, directory)
    values, logits = oracle.expectations(model, random_prompt(variant, seed))
    check(variant, values, model, logits)
    np.save(directory / "logits.npy", logits)
    expected = {
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
        "seed": seed,
        "covers": variant.covers,
        "logits_file": "logits.npy",
        "logits_rows": oracle.LOGITS_ROWS,
        "ignored_tensors": sorted(info["unexpected_keys"]),
        **values,
    }
    checkpoint.write_json(directory / "expected.json", expected)
    size = sum(file.stat().st_size for file in directory.iterdir())
    print(
        f"{variant.name}: seed {seed}, {size // 1000} kB, margin {values['min_margin']:.3f} of "
        f"{values['max_abs_logit']:.2f}, router {values['min_router_margin']:.1e}, "
        f"f32 error {values['f32_error']:.1e}, distinct ids {len(set(values['greedy_ids']))}, "
        f"experts hit {values['experts_hit_per_moe_layer']}, "
        f"flips {values['share_of_choices_changed_by_bias_or_groups']:.2f}",
        flush=True,
    )


def make_models(only):
    for variant in VARIANTS:
        if not only or variant.name in only:
            make_variant(variant)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of variants, `demo`, `config_keys`")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    make_models(args.only)
    if not args.only or "demo" in args.only:
        demo_expectations.make_demo(DEMO, MODELS)
    if not args.only or "config_keys" in args.only:
        config_keys.make_config_keys(MODELS, CONFIG_KEYS)


if __name__ == "__main__":
    main()
