#!/usr/bin/env python3
"""Trains the demo model: a tiny Qwen3-MoE language model, from plain text files to Hugging Face form.

The exported directory holds config.json, generation_config.json, tokenizer.json,
tokenizer_config.json and model.safetensors (bf16). Needs only torch and numpy.
"""

import argparse
import json
import math
import os
import random
import struct
import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from demo_tokenizer import (
    SPECIAL_TOKENS,
    byte_alphabet,
    tokenizer_config,
    tokenizer_json,
    train_bpe,
)

MODEL_SHAPE = {
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 128,
    "rope_theta": 10000.0,
}
RMS_EPS = 1e-6

BATCH_SEQUENCES = 48
SEQUENCE_TOKENS = 128
PEAK_LEARNING_RATE = 3e-3
WARMUP_STEPS = 100
LOAD_LOSS_WEIGHT = 0.003
SAMPLE_PROMPTS = ("ROMEO:\n", "def main(")


# ---- model -------------------------------------------------------------------------------------


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + RMS_EPS) * self.weight


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, self.head_dim = config["hidden_size"], config["head_dim"]
        num_heads, num_kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.group = num_heads // num_kv_heads
        self.q_proj = nn.Linear(hidden, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden, bias=False)
        self.q_norm, self.k_norm = Norm(self.head_dim), Norm(self.head_dim)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        heads = (batch, length, -1, self.head_dim)
        q = self.q_norm(self.q_proj(x).view(heads)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(heads)).transpose(1, 2)
        v = self.v_proj(x).view(heads).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k, v = k.repeat_interleave(self.group, 1), v.repeat_interleave(self.group, 1)
        scores = (q @ k.transpose(-1, -2)) * self.head_dim**-0.5 + mask
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, -1))


class Moe(nn.Module):
    """Routed experts. `load_loss` is set by forward: it is lowest when all experts get equal shares."""

    def __init__(self, config):
        super().__init__()
        hidden, width = config["hidden_size"], config["moe_intermediate_size"]
        self.num_experts, self.top_k = config["num_experts"], config["num_experts_per_tok"]
        self.gate = nn.Linear(hidden, self.num_experts, bias=False)
        self.gate_up = nn.Parameter(torch.randn(self.num_experts, hidden, 2 * width) * hidden**-0.5)
        self.down = nn.Parameter(torch.randn(self.num_experts, width, hidden) * width**-0.5 * 0.5)
        self.load_loss = None

    def forward(self, x):
        batch, length, hidden = x.shape
        x = x.reshape(-1, hidden)
        probs = self.gate(x).softmax(-1)
        weights, chosen = probs.topk(self.top_k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        flat = chosen.flatten()
        order = flat.argsort()
        counts = flat.bincount(minlength=self.num_experts)
        rows = order // self.top_k
        results = self._experts(x[rows], counts) * weights.flatten()[order].unsqueeze(1)
        out = torch.zeros_like(x).index_add_(0, rows, results)
        load = counts.float() / flat.numel()
        self.load_loss = self.num_experts * (load * probs.mean(0)).sum()
        return out.view(batch, length, hidden)

    def _experts(self, rows, counts):
        """Runs each expert on its rows; the rows come sorted by expert."""
        results = []
        parts = zip(rows.split(counts.tolist()), self.gate_up.unbind(0), self.down.unbind(0))
        for part, gate_up, down in parts:
            gate, up = (part @ gate_up).chunk(2, -1)
            results.append((F.silu(gate) * up) @ down)
        return torch.cat(results)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = Norm(config["hidden_size"])
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config["hidden_size"])
        self.mlp = Moe(config)

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=0.05)
        self.layers = nn.ModuleList(Block(config) for _ in range(config["num_hidden_layers"]))
        self.norm = Norm(config["hidden_size"])

    def forward(self, ids):
        length, head_dim = ids.shape[1], self.config["head_dim"]
        frequencies = self.config["rope_theta"] ** (
            -torch.arange(0, head_dim, 2).float() / head_dim
        )
        angles = torch.outer(torch.arange(length).float(), frequencies)
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.embed_tokens(ids)
        for block in self.layers:
            x = block(x, cos, sin, mask)
        return self.norm(x) @ self.embed_tokens.weight.T


# ---- export ------------------------------------------------------------------------------------


def to_bf16_bytes(tensor):
    """Rounds to nearest even."""
    bits = tensor.detach().contiguous().float().numpy().view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return bits.astype("<u2").tobytes()


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = at + tensor.numel() * 2
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor in tensors.values():
            file.write(to_bf16_bytes(tensor))


def block_tensors(prefix, block, config):
    tensors = {}
    for name in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{prefix}{name}.weight"] = getattr(block, name).weight
    for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"):
        tensors[f"{prefix}self_attn.{name}.weight"] = getattr(block.self_attn, name).weight
    tensors[f"{prefix}mlp.gate.weight"] = block.mlp.gate.weight
    width = config["moe_intermediate_size"]
    for e in range(config["num_experts"]):
        gate_up = block.mlp.gate_up[e]
        tensors[f"{prefix}mlp.experts.{e}.gate_proj.weight"] = gate_up[:, :width].T
        tensors[f"{prefix}mlp.experts.{e}.up_proj.weight"] = gate_up[:, width:].T
        tensors[f"{prefix}mlp.experts.{e}.down_proj.weight"] = block.mlp.down[e].T
    return tensors


def model_tensors(model):
    tensors = {"model.embed_tokens.weight": model.embed_tokens.weight}
    for idx, block in enumerate(model.layers):
        tensors.update(block_tensors(f"model.layers.{idx}.", block, model.config))
    tensors["model.norm.weight"] = model.norm.weight
    return tensors


def model_config(config, end_of_text):
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "intermediate_size": 4 * config["hidden_size"],
        "max_position_embeddings": 2048,
        "norm_topk_prob": True,
        "rms_norm_eps": RMS_EPS,
        "rope_scaling": None,
        "router_aux_loss_coef": 0.001,
        "sliding_window": None,
        "max_window_layers": config["num_hidden_layers"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        **config,
    }


def generation_config(end_of_text, end_of_message):
    return {
        "bos_token_id": end_of_text,
        "eos_token_id": [end_of_text, end_of_message],
        "pad_token_id": end_of_text,
        "do_sample": True,
        "temperature": 0.8,
        "top_p": 0.95,
    }


def write_json(path, value, **options):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, **options)


def export(model, vocab, merges, out):
    os.makedirs(out, exist_ok=True)
    write_safetensors(f"{out}/model.safetensors", model_tensors(model))
    end_of_text, end_of_message = len(vocab), len(vocab) + 2
    write_json(f"{out}/config.json", model_config(model.config, end_of_text), indent=2)
    generation = generation_config(end_of_text, end_of_message)
    write_json(f"{out}/generation_config.json", generation, indent=2)
    write_json(f"{out}/tokenizer.json", tokenizer_json(vocab, merges), ensure_ascii=False)
    write_json(f"{out}/tokenizer_config.json", tokenizer_config(), indent=2)


# ---- training ----------------------------------------------------------------------------------


def read_ascii(path):
    with open(path, encoding="utf-8", errors="ignore") as file:
        return "".join(ch for ch in file.read() if ch in "\n\t" or 32 <= ord(ch) < 127)


def token_streams(paths, docs, encode, end_of_text):
    """One stream of ids for code and one for prose, documents parted by end-of-text."""
    streams = defaultdict(list)
    for path, doc in zip(paths, docs):
        streams["code" if path.endswith(".py") else "text"] += [end_of_text] + encode(doc)
    return {kind: torch.tensor(ids) for kind, ids in streams.items()}


def sample_batch(streams):
    """Sequences drawn from the streams in turn, so that each kind of text has an equal share."""
    kinds, batch = sorted(streams), []
    for i in range(BATCH_SEQUENCES):
        stream = streams[kinds[i % len(kinds)]]
        start = random.randrange(0, len(stream) - SEQUENCE_TOKENS - 1)
        batch.append(stream[start : start + SEQUENCE_TOKENS + 1])
    return torch.stack(batch)


def learning_rate(step, fraction_done):
    """Linear warm-up by steps times a cosine by the clock, down to 3 % of the peak."""
    cosine = 0.5 * (1 + math.cos(math.pi * fraction_done))
    return PEAK_LEARNING_RATE * min(1, step / WARMUP_STEPS) * (cosine * 0.97 + 0.03)


def train_step(model, optimizer, batch):
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))
    load_loss = sum(block.mlp.load_loss for block in model.layers)
    optimizer.zero_grad()
    (loss + LOAD_LOSS_WEIGHT * load_loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), load_loss.item() / len(model.layers)


def train(model, streams, minutes, save):
    """Trains until the time is up; calls save() every 500 steps and at the end."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.05
    )
    start = last = time.time()
    step = 0
    while (fraction := (time.time() - start) / (minutes * 60)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, fraction)
        loss, load_loss = train_step(model, optimizer, sample_batch(streams))
        step += 1
        if step % 50 == 0:
            rate = 50 * BATCH_SEQUENCES * SEQUENCE_TOKENS / (time.time() - last)
            last = time.time()
            print(
                f"step {step} loss {loss:.3f} load {load_loss:.3f} {rate:.0f} tok/s "
                f"done {fraction:.3f}",
                flush=True,
            )
        if step % 500 == 0:
            save()
    save()


def print_samples(model, vocab, encode):
    """Shows what the model writes; a prompt whose words the corpus lacks is replaced by end-of-text."""
    byte_of = {ch: byte for byte, ch in byte_alphabet().items()}
    model.eval()
    for prompt in SAMPLE_PROMPTS:
        try:
            ids = encode(prompt)
        except KeyError:
            ids = [len(vocab)]
        with torch.no_grad():
            for _ in range(120):
                probs = (model(torch.tensor([ids[-250:]]))[0, -1] / 0.8).softmax(-1)
                ids.append(torch.multinomial(probs, 1).item())
        text = bytes(byte_of[ch] for i in ids if i < len(vocab) for ch in vocab[i])
        print("-----\n" + text.decode("utf-8", "replace"), flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="training text; names ending in .py count as code")
    parser.add_argument("--out", required=True, help="directory to write the checkpoint into")
    parser.add_argument("--minutes", type=float, default=60, help="training time (default 60)")
    parser.add_argument("--vocab", type=int, default=1536, help="tokens, specials included")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--seed", type=int, default=7, help="seed of weights and batches")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    torch.set_num_threads(args.threads)
    docs = [read_ascii(path) for path in args.files]
    vocab, merges, encode = train_bpe(docs, args.vocab)
    streams = token_streams(args.files, docs, encode, end_of_text=len(vocab))
    print("tokens:", {kind: len(ids) for kind, ids in streams.items()}, flush=True)
    model = Model({"vocab_size": len(vocab) + len(SPECIAL_TOKENS), **MODEL_SHAPE})
    print("parameters:", sum(p.numel() for p in model.parameters()), flush=True)
    train(model, streams, args.minutes, lambda: export(model, vocab, merges, args.out))
    print_samples(model, vocab, encode)


if __name__ == "__main__":
    main()
