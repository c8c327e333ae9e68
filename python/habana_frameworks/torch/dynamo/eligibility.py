"""Which Dynamo graphs are for the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from .binding import warn_once
from .inputs import (
    INFERENCE_SWITCH,
    follows_gradients,
    left_grad_mode,
    of_compiled_autograd,
)
from .request import Settings


def eager_reason(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], settings: Settings, device: str
) -> str:
    """Why a graph is not for the compiler at all; "" if it is. device: where graphs compute."""
    if not settings["use_compiled_recipes"]:
        return "option use_compiled_recipes is off"
    tensors = [v for v in example_inputs if isinstance(v, torch.Tensor)]
    trains = follows_gradients(gm) and any(t.requires_grad for t in tensors)
    if not settings["inference"] and not trains:
        return "option inference is off"
    if any(isinstance(v, list) for v in example_inputs):
        return "an input is a list"
    if of_compiled_autograd(gm):
        return "the graph is a part of a backward that compiled autograd traced"
    if left_grad_mode(gm) != torch.is_grad_enabled():
        return "the graph leaves another grad mode behind than it was called in"
    if any(n.target is INFERENCE_SWITCH and n.args[0] is False for n in gm.graph.nodes):
        return "the graph leaves inference mode (torch.inference_mode(False))"
    devices = {t.device.type for t in tensors}
    if tensors and device not in devices:
        warn_once(
            f"a graph with tensors on {', '.join(sorted(devices))} only runs eagerly: "
            'move the model and its inputs to the device with .to("hpu")'
        )
        return f"no input is on {device}"
    if devices - {device, "cpu"}:
        return f"inputs on {', '.join(sorted(devices))}"
    return ""
