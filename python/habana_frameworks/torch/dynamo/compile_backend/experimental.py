"""Compiled autograd with hpu_backend."""

from __future__ import annotations

from typing import Any

import torch

from ...torch_compat.compiled_autograd import AutogradCompilerInstance, turn_on
from ...torch_compat.dynamo_settings import dynamo_config, reset


def enable_compiled_autograd(is_dynamic: bool = False, **kwargs: Any) -> None:
    """From now on compiled autograd traces the backward passes of this process and gives their
    graphs to hpu_backend. kwargs: those for torch.compile. Dynamo forgets what it compiled before.

    Backwards of graphs that hpu_backend compiled are already programs and stay so; this traces what
    lies between them.
    """

    def compile_backward(module: torch.fx.GraphModule) -> Any:
        return torch.compile(module, backend="hpu_backend", **kwargs)

    def new_compiler() -> AutogradCompilerInstance:
        return AutogradCompilerInstance(compile_backward)

    reset()
    turn_on(new_compiler, is_dynamic)
    dynamo_config.optimize_ddp = "python_reducer"
