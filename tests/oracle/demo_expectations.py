"""Expectations for the demo checkpoint: its tokenizer's ids, greedy ids and logits."""

from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoTokenizer

import checkpoint
import expectations as oracle

PROMPTS = ("ROMEO:", "def main(", "First Citizen:\n")
LOGITS_PROMPT = "ROMEO:"
NUM_GREEDY = 64


def make_demo(demo: Path, models: Path):
    """Writes demo.expected.json and demo.logits.npy; weights are the stored bf16, arithmetic is f32."""
    model, _ = checkpoint.load_checkpoint(demo)
    tokenizer = AutoTokenizer.from_pretrained(demo)
    entries = []
    for text in PROMPTS:
        values, logits = oracle.expectations(model, tokenizer(text)["input_ids"], NUM_GREEDY)
        if (
            oracle.greedy_by_generate(model, values["prompt_ids"], NUM_GREEDY)
            != values["greedy_ids"]
        ):
            raise RuntimeError(f"demo, prompt {text!r}: generate() gives other ids")
        entry = {"prompt": text, "greedy_text": tokenizer.decode(values["greedy_ids"]), **values}
        if text == LOGITS_PROMPT:
            entry["logits_file"] = "demo.logits.npy"
            np.save(models / "demo.logits.npy", logits)
        entries.append(entry)
        print(f"demo, {text!r}: margin {values['min_margin']:.4f} of {values['max_abs_logit']:.2f}")
    expected = {
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
        "logits_rows": oracle.LOGITS_ROWS,
        "prompts": entries,
    }
    checkpoint.write_json(models / "demo.expected.json", expected)
