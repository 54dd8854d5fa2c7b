"""The released FP8 form: `*.weight` in float8_e4m3 and `*.weight_scale_inv`, one f32 scale a block of 128 x 128."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BLOCK = 128
LARGEST = 448.0  # of float8_e4m3
CONFIG = {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "quant_method": "fp8",
    "weight_block_size": [BLOCK, BLOCK],
}


def is_fp8(name):
    """Projections and experts are; norms, router, embedding and head are not."""
    return "_proj" in name and "eh_proj" not in name


def num_blocks(size):
    return -(-size // BLOCK)


def spread_out(scales, shape):
    """[rows / 128, cols / 128] -> [rows, cols]."""
    wide = scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return wide[: shape[0], : shape[1]]


def quantise(weight):
    """(codes, scales): the largest value of each block becomes 448."""
    rows, cols = (num_blocks(size) for size in weight.shape)
    padded = torch.zeros(rows * BLOCK, cols * BLOCK)
    padded[: weight.shape[0], : weight.shape[1]] = weight.abs()
    scales = padded.reshape(rows, BLOCK, cols, BLOCK).amax(dim=(1, 3)) / LARGEST
    codes = (weight / spread_out(scales, weight.shape)).to(torch.float8_e4m3fn)
    return codes, scales


def dequantise(codes, scales):
    return codes.float() * spread_out(scales, codes.shape)


def uneven(weight, generator):
    """Blocks whose sizes differ by up to four times, so that a wrong scale shows."""
    shape = [num_blocks(size) for size in weight.shape]
    return weight * spread_out(2.0 ** (2 * torch.rand(shape, generator=generator) - 1), weight.shape)


def rounded(name, values, generator):
    """What the files will hold of a parameter, in f32. Packed experts are rounded matrix by matrix."""
    if not is_fp8(name):
        return values
    if values.dim() == 3:
        return torch.stack([rounded(name, expert, generator) for expert in values])
    parts = values.chunk(2) if name.endswith("gate_up_proj") else [values]
    return torch.cat([dequantise(*quantise(uneven(part, generator))) for part in parts])


def released_tensors(tensors):
    """The tensors as a release stores them: scales beside the weights."""
    released = {}
    for name, values in tensors.items():
        if is_fp8(name):
            released[name], released[f"{name}_scale_inv"] = quantise(values.float())
        else:
            released[name] = values
    return released


def write_widened(directory: Path, wide: Path):
    """A copy of an FP8 checkpoint with f32 weights and no quantization_config."""
    tensors = load_file(directory / "model.safetensors")
    scales = {n: tensors.pop(n) for n in list(tensors) if n.endswith("_scale_inv")}
    for name in tensors:
        if f"{name}_scale_inv" in scales:
            tensors[name] = dequantise(tensors[name], scales[f"{name}_scale_inv"])
    save_file(tensors, wide / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    del config["quantization_config"]
    (wide / "config.json").write_text(json.dumps(config), encoding="utf-8")
