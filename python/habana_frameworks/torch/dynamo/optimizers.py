"""Optimizers on hpu whose step is compiled are traced as those on CUDA are.

- A compiled AdamW whose step counts are 0-d CPU tensors writes to CPU tensors, which no program
  does. Dynamo makes optimizers `capturable`, which puts the counts beside the parameters, on CUDA
  and XPU only; PyTorch's optimizers themselves take hpu as well.
- PyTorch updates lists of tensors at once (`_foreach_*`) by default on devices of a list without
  hpu. In a graph that is a tenth of the calls of a loop over the parameters, and the same recipe.
  Eagerly the loop stays: a call with a list runs on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.variables.optimizer import OptimizerVariable
from torch.optim import optimizer as torch_optimizer


def _may_become_capturable(group: dict[str, Any], state: Any) -> bool:
    """As Dynamo asks of the devices that it knows: nothing of the group has state yet."""
    parameters = group.get("params", [])
    return (
        "capturable" in group
        and len(parameters) > 0
        and all(p.device.type == "hpu" and p not in state for p in parameters)
    )


_devices_of_pytorch = torch_optimizer._get_foreach_kernels_supported_devices  # type: ignore[attr-defined]


def _foreach_devices() -> list[str]:
    """Device types whose optimizers update lists of tensors by default."""
    devices = _devices_of_pytorch()
    return [*devices, "hpu"] if torch.compiler.is_compiling() else devices


def register() -> None:
    """May be called again."""
    original = OptimizerVariable._set_capturable
    if original.__module__ == __name__:
        return

    def _set_capturable(self: Any, tx: Any) -> None:
        for group in self.value.param_groups:
            if _may_become_capturable(group, self.value.state):
                group["capturable"] = True
        original(self, tx)

    OptimizerVariable._set_capturable = _set_capturable  # type: ignore[method-assign]
    torch_optimizer._get_foreach_kernels_supported_devices = _foreach_devices  # type: ignore[attr-defined]
