"""Optimizers on hpu whose step is compiled are traced as those on CUDA are.

- A compiled AdamW whose step counts are 0-d CPU tensors writes to CPU tensors, which no program
  does. Dynamo makes optimizers `capturable`, which puts the counts beside the parameters, but on
  CUDA and XPU only, and only before their first step; PyTorch's optimizers themselves take hpu as
  well. Here the counts of an optimizer that already has some, from a checkpoint for example, are
  moved. What it saves says `capturable` as the caller set it: such a checkpoint can be continued on
  the CPU too, which refuses others.
- PyTorch updates lists of tensors at once (`_foreach_*`) by default on a list of device types that
  lacks hpu. In a graph this makes a tenth of the calls of a loop over the parameters, and the same
  recipe. Eager steps keep the loop, because a call with a list runs on the CPU.
- Dynamo asks Inductor whether CUDA graphs may use a parameter in place, and imports all of Inductor
  for that: 0.4 s of a process. For tensors that are not on CUDA there is nothing to ask.
"""

from __future__ import annotations

from typing import Any

import torch

from ...torch_compat.replaced import original, replace

# set on a group, and on an optimizer with such a group
_MADE_CAPTURABLE = "_made_capturable_on_hpu"


def _make_capturable(optimizer: torch.optim.Optimizer) -> None:
    """Makes the groups capturable whose parameters are all on hpu."""
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


_SET_CAPTURABLE = "torch._dynamo.variables.optimizer.OptimizerVariable._set_capturable"
_IS_STATIC = "torch._dynamo.variables.optimizer._is_static_for_cudagraphs"
_FOREACH_DEVICES = "torch.optim.optimizer._get_foreach_kernels_supported_devices"


def register() -> None:
    """May be called again."""
    set_capturable = original(_SET_CAPTURABLE)
    if set_capturable.__module__ == __name__:
        return
    is_static, foreach_devices = original(_IS_STATIC), original(_FOREACH_DEVICES)

    def _is_static_for_cudagraphs(x: torch.Tensor) -> bool:
        return is_static(x) if x.is_cuda else True

    def _set_capturable(self: Any, tx: Any) -> None:
        _make_capturable(self.value)
        set_capturable(self, tx)

    def _foreach_devices() -> list[str]:
        """Device types whose optimizers update lists of tensors by default."""
        devices: list[str] = foreach_devices()
        return [*devices, "hpu"] if torch.compiler.is_compiling() else devices

    replace(_IS_STATIC, _is_static_for_cudagraphs)
    replace(_SET_CAPTURABLE, _set_capturable)
    replace(_FOREACH_DEVICES, _foreach_devices)
