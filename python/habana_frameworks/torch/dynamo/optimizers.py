"""Optimizers whose step is compiled keep their step counts on the device.

A compiled AdamW whose counts are 0-d CPU tensors writes to CPU tensors, which no program does.
Dynamo makes optimizers `capturable`, which puts the counts beside the parameters, on CUDA and XPU
only; PyTorch's optimizers themselves take hpu as well.
"""

from __future__ import annotations

from typing import Any

from torch._dynamo.variables.optimizer import OptimizerVariable


def _may_become_capturable(group: dict[str, Any], state: Any) -> bool:
    """As Dynamo asks of the devices that it knows: nothing of the group has state yet."""
    parameters = group.get("params", [])
    return (
        "capturable" in group
        and len(parameters) > 0
        and all(p.device.type == "hpu" and p not in state for p in parameters)
    )


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
