"""The quantizer of the PT2E flow: which tensors of an exported graph become fp8 (quantize_pt2e.py
does it).

    quantizer = habana_quantizer()
    quantizer.set_global(habana_quant_config_symmetric(torch.float8_e4m3fn))
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from .observer import AbsMaxObserver, SimpleAbsMaxObserver

# The largest numbers that Gaudi 2 has room for at every scale.
_LARGEST = 240.0
_KEY = "quantization_annotation"
_PRODUCTS = {
    torch.ops.aten.linear.default: ("input", "weight"),
    torch.ops.aten.conv2d.default: ("input", "weight"),
    torch.ops.aten.matmul.default: ("input", "input"),
    torch.ops.aten.bmm.default: ("input", "input"),
    torch.ops.aten.mm.default: ("input", "input"),
    torch.ops.aten.max_pool2d.default: ("input",),
}


@dataclass(frozen=True)
class QuantizationSpec:
    """How one tensor becomes fp8."""

    dtype: torch.dtype
    observer: Callable[[], SimpleAbsMaxObserver]


@dataclass(frozen=True)
class QuantizationConfig:
    input_activation: QuantizationSpec
    weight: QuantizationSpec


@dataclass
class QuantizationAnnotation:
    """The value of node.meta["quantization_annotation"]: the inputs of the node that become fp8."""

    input_qspec_map: dict[Node, QuantizationSpec] = field(default_factory=dict)
    _annotated: bool = True


def annotation(node: Node) -> QuantizationAnnotation | None:
    found: QuantizationAnnotation | None = node.meta.get(_KEY)
    return found


class habana_quantizer:
    """Quantizes the inputs of linear layers, convolutions, matrix products and pooling."""

    def __init__(self) -> None:
        self.global_config: QuantizationConfig | None = None

    def set_global(self, quantization_config: QuantizationConfig) -> habana_quantizer:
        self.global_config = quantization_config
        return self

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates the nodes that are not annotated yet. Raises ValueError without a config."""
        config = self.global_config
        if config is None:
            raise ValueError(
                "habana_quantizer has no config: call "
                "set_global(habana_quant_config_symmetric(torch.float8_e4m3fn)) first"
            )
        specs = {"input": config.input_activation, "weight": config.weight}
        for node in model.graph.nodes:
            roles = _PRODUCTS.get(node.target) if node.op == "call_function" else None
            if roles is None or _KEY in node.meta:
                continue
            found = QuantizationAnnotation()
            for argument, role in zip(node.args, roles, strict=False):
                if isinstance(argument, Node):
                    found.input_qspec_map[argument] = specs[role]
            node.meta[_KEY] = found
        return model

    def validate(self, model: GraphModule) -> None:
        """Accepts every graph."""


def habana_quant_config_symmetric(quant_dtype: torch.dtype) -> QuantizationConfig:
    """One scale for each tensor, and 0 stays 0. Activations keep a margin of two powers of two,
    weights of one. Raises ValueError for other types than fp8."""
    if quant_dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
        raise ValueError(
            f"habana_quant_config_symmetric: quant_dtype={quant_dtype}; use torch.float8_e4m3fn "
            "or torch.float8_e5m2"
        )

    def spec(margin: int) -> QuantizationSpec:
        observer = functools.partial(
            AbsMaxObserver,
            dtype=quant_dtype,
            quant_min=-_LARGEST,
            quant_max=_LARGEST,
            eps=2.0**-12,
            backoff_margin=margin,
        )
        return QuantizationSpec(quant_dtype, observer)

    return QuantizationConfig(spec(2), spec(1))
