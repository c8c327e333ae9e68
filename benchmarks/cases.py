"""The measured models: those of examples/models.py in several shapes, and some of our own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from models import SEED, make_model, to_device


@dataclass(frozen=True)
class Case:
    """A callable module and its keyword arguments."""

    model: nn.Module
    inputs: dict[str, Any]

    @property
    def dtype(self) -> torch.dtype:
        """The type of the floating-point parameters, or else of the first floating-point input."""
        tensors = [*self.model.parameters(), *self.inputs.values()]
        return next(t.dtype for t in tensors if t.is_floating_point())


class Mlp(nn.Module):
    """Layers of a few microseconds, which show the cost of a launch."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class ElementwiseChain(nn.Module):
    """Forty elementwise operations and a reduction per block, four blocks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            y = x
            for step in range(10):
                y = torch.tanh(y * 0.9 + 0.1 * step) + torch.sigmoid(y) * x
            x = y - y.mean(-1, keepdim=True)
            x = x / (x.std(-1, keepdim=True) + 1e-5)
        return x


class UNet(nn.Module):
    """Two levels down and two up, with skips."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.GroupNorm(8, outputs),
                nn.SiLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.SiLU(),
            )

        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.up2, self.up1 = block(6 * width, 2 * width), block(3 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        c = self.up2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        c = self.up1(torch.cat([F.interpolate(c, scale_factor=2.0), a], 1))
        return self.out(c)


class LlamaStep(nn.Module):
    """One token of the Llama of examples/models.py (same sizes, grouped-query attention, rotary
    positions) with a static key/value cache that the graph writes. The position is an input, so
    every call does the same work; transformers' StaticCache advances by itself and would run out.
    """

    def __init__(
        self,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        length: int = 256,
        inner: int = 2048,
    ):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, heads // 3, width // heads
        vocabulary, kv_width = 32000, self.kv_heads * self.size

        def linears(inputs: int, outputs: int) -> nn.ModuleList:
            return nn.ModuleList(nn.Linear(inputs, outputs, bias=False) for _ in range(layers))

        self.embedding = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2 * layers + 1))
        self.q, self.k, self.v = (linears(width, n) for n in (width, kv_width, kv_width))
        self.out, self.down = linears(width, width), linears(inner, width)
        self.gate, self.up = linears(width, inner), linears(width, inner)
        self.head = nn.Linear(width, vocabulary, bias=False)
        frequencies = 10000 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for i in range(layers):
            for name in ("keys", "values"):
                cache = torch.zeros(1, self.kv_heads, length, self.size)
                self.register_buffer(f"{name}_{i}", cache)

    def rotate(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return x * self.cos[position] + torch.cat((-high, low), -1) * self.sin[position]

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.embedding(token)
        mask = torch.arange(self.cos.shape[0], device=x.device).unsqueeze(0) <= position
        for i in range(len(self.q)):
            y = self.norms[2 * i](x)
            q = self.q[i](y).view(1, 1, self.heads, self.size).transpose(1, 2)
            k = self.k[i](y).view(1, 1, self.kv_heads, self.size).transpose(1, 2)
            v = self.v[i](y).view(1, 1, self.kv_heads, self.size).transpose(1, 2)
            keys, values = getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")
            keys.index_copy_(2, position, self.rotate(k, position))
            values.index_copy_(2, position, v)
            y = F.scaled_dot_product_attention(
                self.rotate(q, position), keys, values, attn_mask=mask, enable_gqa=True
            )
            x = x + self.out[i](y.transpose(1, 2).reshape(1, 1, -1))
            z = self.norms[2 * i + 1](x)
            x = x + self.down[i](F.silu(self.gate[i](z)) * self.up[i](z))
        return self.head(self.norms[-1](x))


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(SEED))


def _transformer(name: str, batch: int, length: int = 128) -> Callable[[torch.dtype], Case]:
    def make(dtype: torch.dtype) -> Case:
        case = make_model(name, length=length, dtype=dtype)
        return Case(case.model, to_device(case.inputs(batch), "cpu", dtype))

    return make


def _own(
    model: Callable[[], nn.Module], inputs: Callable[[], dict[str, Any]]
) -> Callable[[torch.dtype], Case]:
    def make(dtype: torch.dtype) -> Case:
        torch.manual_seed(SEED)
        return Case(model().eval().to(dtype), to_device(inputs(), "cpu", dtype))

    return make


def _deep_bert(layers: int) -> Callable[[torch.dtype], Case]:
    """BERT of a quarter of BERT-base's width: the cost of depth does not depend on the width."""

    def make(dtype: torch.dtype) -> Case:
        from transformers import BertConfig, BertModel

        torch.manual_seed(SEED)
        config = BertConfig(
            hidden_size=192, num_attention_heads=3, intermediate_size=768, num_hidden_layers=layers
        )
        tokens = torch.arange(128).reshape(1, 128)
        mask = torch.ones(1, 128, dtype=torch.int64)
        inputs = {"input_ids": tokens, "attention_mask": mask}
        return Case(BertModel(config).eval().to(dtype), inputs)

    return make


def _of_transformers(
    model: str, config: str, inputs: Callable[[], dict[str, Any]], **given: Any
) -> Callable[[torch.dtype], Case]:
    """A class of transformers ("module:Class" where the package itself does not name it)."""

    def make() -> nn.Module:
        import transformers

        place, _, name = model.rpartition(":")
        module = importlib.import_module(place) if place else transformers
        made: nn.Module = getattr(module, name)(getattr(transformers, config)(**given))
        return made

    return _own(make, inputs)


def _image() -> dict[str, Any]:
    return {"pixel_values": _random(1, 3, 224, 224)}


CASES: dict[str, Callable[[torch.dtype], Case]] = {
    "bert-base": _transformer("bert-base", 1),
    "bert-base b8": _transformer("bert-base", 8),
    "bert-base s512": _transformer("bert-base", 1, 512),
    "gpt2": _transformer("gpt2", 1),
    "llama prefill": _transformer("llama", 1),
    "llama decode": _own(
        LlamaStep, lambda: {"token": torch.tensor([[42]]), "position": torch.tensor([17])}
    ),
    "mixtral": _of_transformers(
        "MixtralForCausalLM",
        "MixtralConfig",
        lambda: {"input_ids": torch.arange(128).reshape(1, 128)},
        vocab_size=32000,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        use_cache=False,
    ),
    "vit": _transformer("vit", 1),
    "resnet50": _transformer("resnet50", 1),
    "resnet50 b8": _transformer("resnet50", 8),
    "mobilenetv2": _of_transformers(
        "MobileNetV2ForImageClassification", "MobileNetV2Config", _image, num_labels=1000
    ),
    "convnext": _of_transformers(
        "ConvNextForImageClassification", "ConvNextConfig", _image, num_labels=1000
    ),
    "swin": _of_transformers("SwinForImageClassification", "SwinConfig", _image, num_labels=1000),
    "t5 encoder": _of_transformers(
        "T5EncoderModel", "T5Config", lambda: {"input_ids": torch.arange(128).reshape(1, 128)}
    ),
    "whisper encoder": _of_transformers(
        "transformers.models.whisper.modeling_whisper:WhisperEncoder",
        "WhisperConfig",
        lambda: {"input_features": _random(1, 80, 3000)},
    ),
    "unet": _own(UNet, lambda: {"x": _random(1, 3, 128, 128)}),
    "mlp": _own(Mlp, lambda: {"x": _random(16, 256)}),
    "elementwise": _own(ElementwiseChain, lambda: {"x": _random(256, 1024)}),
}

# These show how the cost of compilation grows as a model deepens.
DEPTHS = (12, 24, 48)
DEPTH_CASES = {f"bert {layers} layers": _deep_bert(layers) for layers in DEPTHS}


def make_case(name: str, dtype: torch.dtype) -> Case:
    """The case with that name, with weights and inputs on the CPU."""
    return {**CASES, **DEPTH_CASES}[name](dtype)
