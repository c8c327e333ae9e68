"""The models of examples and benchmarks: transformers' architectures with random weights.

Each has a full size and a small one for tests; inputs are made from a fixed seed on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

SEED = 20
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class ModelCase:
    """A model in eval mode and a maker of inputs for a batch size."""

    name: str
    model: nn.Module
    inputs: Callable[[int], Inputs]


def _tokens(vocabulary: int, length: int) -> Callable[[int], Inputs]:
    def make(batch: int) -> Inputs:
        generator = torch.Generator().manual_seed(SEED)
        shape = (batch, length)
        return {"input_ids": torch.randint(0, vocabulary, shape, generator=generator)}

    return make


def _tokens_with_mask(vocabulary: int, length: int) -> Callable[[int], Inputs]:
    tokens = _tokens(vocabulary, length)

    def make(batch: int) -> Inputs:
        mask = torch.ones(batch, length, dtype=torch.int64)
        if batch > 1:
            mask[-1, length * 3 // 4 :] = 0
        return {**tokens(batch), "attention_mask": mask}

    return make


def _image(size: int) -> Callable[[int], Inputs]:
    def make(batch: int) -> Inputs:
        generator = torch.Generator().manual_seed(SEED)
        return {"pixel_values": torch.randn(batch, 3, size, size, generator=generator)}

    return make


def _bert(small: bool, length: int) -> ModelCase:
    from transformers import BertConfig, BertModel

    config = BertConfig()
    if small:
        config = BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
        )
        length = 16
    return ModelCase("bert-base", BertModel(config), _tokens_with_mask(config.vocab_size, length))


def _gpt2(small: bool, length: int) -> ModelCase:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False)
    if small:
        config = GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, use_cache=False)
        length = 16
    return ModelCase("gpt2", GPT2LMHeadModel(config), _tokens(config.vocab_size, length))


def _llama(small: bool, length: int) -> ModelCase:
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
    }
    config = LlamaConfig(vocab_size=32000, num_hidden_layers=12, use_cache=False, **shape)
    if small:
        shape = {
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
        }
        config = LlamaConfig(vocab_size=100, num_hidden_layers=2, use_cache=False, **shape)
        length = 16
    return ModelCase("llama", LlamaForCausalLM(config), _tokens(config.vocab_size, length))


def _vit(small: bool, _: int) -> ModelCase:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig()
    if small:
        config = ViTConfig(
            image_size=32,
            patch_size=8,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
        )
    return ModelCase("vit", ViTModel(config), _image(int(config.image_size)))


def _resnet(small: bool, _: int) -> ModelCase:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(num_labels=1000)
    if small:
        config = ResNetConfig(
            num_labels=10, embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1]
        )
    size = 64 if small else 224
    return ModelCase("resnet50", ResNetForImageClassification(config), _image(size))


_MAKERS: dict[str, Callable[[bool, int], ModelCase]] = {
    "bert-base": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "vit": _vit,
    "resnet50": _resnet,
}
MODELS = tuple(_MAKERS)


def make_model(
    name: str, small: bool = False, length: int = 128, dtype: torch.dtype = torch.float32
) -> ModelCase:
    """A model with random weights from a fixed seed, in eval mode.

    Weights and running statistics of normalisations are random, too, because their initial values
    would hide mistakes.
    """
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.manual_seed(SEED)
    case = _MAKERS[name](small, length)
    with torch.no_grad():
        for module in case.model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.running_var is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    return ModelCase(case.name, case.model.eval().to(dtype), case.inputs)


def to_device(inputs: Inputs, device: str, dtype: torch.dtype = torch.float32) -> Inputs:
    """Inputs on a device; floating point ones in `dtype`."""
    return {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in inputs.items()
    }


def outputs_of(result: Any) -> list[torch.Tensor]:
    """The tensors of a model's result, in order."""
    leaves = torch.utils._pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def largest_error(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    """Largest difference as a share of the range of the reference output."""
    worst = 0.0
    for got, want in zip(ours, theirs, strict=True):
        want = want.double().cpu()
        spread = float(want.max() - want.min()) or 1.0
        worst = max(worst, float((got.double().cpu() - want).abs().max()) / spread)
    return worst
