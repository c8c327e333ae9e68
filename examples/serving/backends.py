"""The devices that the service's models run on, and how models are compiled for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Backend:
    """A device and the arguments of torch.compile for it; None for eager."""

    device: str
    arguments: dict[str, Any] | None = field(default_factory=dict)

    def compile(self, module: nn.Module) -> Callable[..., torch.Tensor]:
        """The module on the device; its weights move there."""
        module = module.eval().requires_grad_(False).to(self.device)
        if self.arguments is None:
            return module
        return torch.compile(module, **self.arguments)


BACKENDS = {
    # The grid has more shapes, each with a program, than Dynamo keeps by default (8). Above its
    # limit Dynamo runs eagerly. With dynamic=False a start without tracing can be kept.
    "hpu": Backend(
        "hpu",
        {
            "backend": "hpu_backend",
            "dynamic": False,
            "recompile_limit": 256,
        },
    ),
    # One code for any shape, not one for each shape of the grid.
    "inductor": Backend("cpu", {"backend": "inductor", "dynamic": True}),
    "eager": Backend("cpu", None),
}
