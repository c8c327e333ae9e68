"""Quantized forms of a small model, and the same model with the weights that they stand for, which
transformers runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

_GROUP = 128
_BLOCK = 128
Tensors = dict[str, torch.Tensor]


def _pack(numbers: torch.Tensor, dim: int) -> torch.Tensor:
    """Eight neighbours along dim (0 or 1) become an i32, the first one in its lowest bits."""
    count = numbers.shape[dim] // 8
    split = numbers.long().unflatten(dim, (count, 8))
    shifts = (4 * torch.arange(8)).reshape(8, *[1] * (1 - dim))
    packed = (split << shifts).sum(dim + 1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).int()


def _gptq(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Symmetric integers of 4 bits in groups of inputs, in the layout of GPTQ: its zero points are
    stored as one less than they are."""
    outputs, inputs = weight.shape
    grouped = weight.float().reshape(outputs, inputs // _GROUP, _GROUP)
    scales = (grouped.abs().amax(2) / 7).bfloat16()
    numbers = (grouped / scales.float()[..., None]).round().clamp(-8, 7)
    meant = (numbers * scales.float()[..., None]).reshape(outputs, inputs)
    numbers = (numbers + 8).reshape(outputs, inputs)
    prefix = name.removesuffix("weight")
    tensors = {
        f"{prefix}qweight": _pack(numbers.t(), 0),
        f"{prefix}qzeros": _pack(torch.full((inputs // _GROUP, outputs), 7), 1),
        f"{prefix}scales": scales.t().contiguous(),
        f"{prefix}g_idx": torch.arange(inputs, dtype=torch.int32) // _GROUP,
    }
    return tensors, meant


def _fp8(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Floats of 8 bits (e4m3) with a scale for each block of 128 x 128. They stay below 240, the
    largest of a Gaudi 2."""
    rows, columns = (size // _BLOCK for size in weight.shape)
    blocks = weight.float().reshape(rows, _BLOCK, columns, _BLOCK)
    scales = blocks.abs().amax((1, 3), keepdim=True) / 240
    narrow = (blocks / scales).to(torch.float8_e4m3fn)
    meant = (narrow.float() * scales).reshape(weight.shape)
    tensors = {
        name: narrow.reshape(weight.shape),
        name.replace("weight", "weight_scale_inv"): scales.reshape(rows, columns),
    }
    return tensors, meant


_FORMS: dict[str, tuple[Callable[[str, torch.Tensor], tuple[Tensors, torch.Tensor]], Any]] = {
    "gptq": (
        _gptq,
        {"quant_method": "gptq", "bits": 4, "group_size": _GROUP, "desc_act": False, "sym": True},
    ),
    "fp8": (
        _fp8,
        {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": [_BLOCK, _BLOCK],
        },
    ),
}


def quantize(source: Path, form: str) -> tuple[Path, Path]:
    """The folders of the quantized model and of its reference, made from a saved model."""
    quantized = source.with_name(f"{source.name}-{form}")
    reference = source.with_name(f"{source.name}-{form}-reference")
    if (quantized / "config.json").exists():
        return quantized, reference
    function, description = _FORMS[form]
    stored: Tensors = {}
    meant: Tensors = {}
    for name, weight in load_file(source / "model.safetensors").items():
        if name.endswith("proj.weight"):
            tensors, wide = function(name, weight)
            stored |= tensors
            meant[name] = wide.to(weight.dtype)
        else:
            stored[name] = meant[name] = weight
    for folder, tensors in ((reference, meant), (quantized, stored)):
        shutil.copytree(source, folder, dirs_exist_ok=True)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = description
    (quantized / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return quantized, reference
