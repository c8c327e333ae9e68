"""Optimizers on hpu whose step is compiled are traced as those on CUDA are.

- A compiled AdamW whose step counts are 0-d CPU tensors writes to CPU tensors, which no program
  does. Dynamo makes optimizers `capturable`, which puts the counts beside the parameters, on CUDA
  and XPU only, and only before their first step; PyTorch's optimizers themselves take hpu as well.
  Here one that has counts, of a checkpoint for example, gets them moved. What it saves says
  `capturable` as the caller set it: such a checkpoint goes on on the CPU too, which refuses others.
- PyTorch updates lists of tensors at once (`_foreach_*`) by default on devices of a list without
  hpu. In a graph that is a tenth of the calls of a loop over the parameters, and the same recipe.
  Eagerly the loop stays: a call with a list runs on the CPU.
- Whether CUDA graphs may take a parameter as it lies, Dynamo asks Inductor and imports all of it
  for that: 0.4 s of a process. Of tensors that are not on CUDA there is nothing to ask.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.variables import optimizer as optimizer_variables
from torch._dynamo.variables.optimizer import OptimizerVariable
from torch.optim import optimizer as torch_optimizer

_MADE_CAPTURABLE = "_made_capturable_on_hpu"  # of a group, and of an optimizer with such a group


def _make_capturable(optimizer: torch.optim.Optimizer) -> None:
    """Those groups that are on hpu whole."""
    for group in optimizer.param_groups:
        parameters = group.get("params", [])
        on_device = len(parameters) > 0 and all(p.device.type == "hpu" for p in parameters)
        if not on_device or group.get("capturable", True):
            continue
        for parameter in parameters:
            state = optimizer.state.get(parameter, {})
            count = state.get("step")
            if isinstance(count, torch.Tensor):
                state["step"] = count.to(parameter.device)
        group["capturable"] = group[_MADE_CAPTURABLE] = True
    changed = any(_MADE_CAPTURABLE in group for group in optimizer.param_groups)
    if changed and not hasattr(optimizer, _MADE_CAPTURABLE):
        setattr(optimizer, _MADE_CAPTURABLE, True)
        optimizer.register_state_dict_post_hook(_as_the_caller_set_it)


def _as_the_caller_set_it(_: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    for group in saved["param_groups"]:
        if group.pop(_MADE_CAPTURABLE, False):
            group["capturable"] = False


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
    is_static = optimizer_variables._is_static_for_cudagraphs

    def _is_static_for_cudagraphs(x: torch.Tensor) -> bool:
        return is_static(x) if x.is_cuda else True

    optimizer_variables._is_static_for_cudagraphs = _is_static_for_cudagraphs

    def _set_capturable(self: Any, tx: Any) -> None:
        _make_capturable(self.value)
        original(self, tx)

    OptimizerVariable._set_capturable = _set_capturable  # type: ignore[method-assign]
    torch_optimizer._get_foreach_kernels_supported_devices = _foreach_devices  # type: ignore[attr-defined]
