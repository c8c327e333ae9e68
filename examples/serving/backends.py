"""What the service's models run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Backend:
    """A device and how a module is compiled for it: torch.compile's arguments, None for eager."""

    device: str
    arguments: dict[str, Any] | None = field(default_factory=dict)

    def compile(self, module: nn.Module) -> Callable[..., torch.Tensor]:
        """The module on the device; its weights move there."""
        module = module.eval().requires_grad_(False).to(self.device)
        if self.arguments is None:
            return module
        return torch.compile(module, **self.arguments)


BACKENDS = {
    # A program per shape of the grid, which has more shapes than Dynamo keeps by default (8): above
    # its limit it runs eagerly. With dynamic=False a start without tracing can be kept.
    "hpu": Backend(
        "hpu",
        {
            "backend": "hpu_backend",
            "dynamic": False,
            "recompile_limit": 256,
        },
    ),
    # Code for any shape, not one per shape of the grid.
    "inductor": Backend("cpu", {"backend": "inductor", "dynamic": True}),
    "eager": Backend("cpu", None),
}
