"""Compiled autograd with hpu_backend."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import compiled_autograd


def enable_compiled_autograd(is_dynamic: bool = False, **kwargs: Any) -> None:
    """From now on backward passes of this process are traced by compiled autograd and its graphs
    given to hpu_backend. kwargs: for torch.compile. Dynamo forgets what it compiled before.

    Backwards of graphs that hpu_backend compiled are programs already and stay what they are;
    what lies between them is what this traces.
    """

    def compile_backward(module: torch.fx.GraphModule) -> Any:
        return torch.compile(module, backend="hpu_backend", **kwargs)

    def new_compiler() -> compiled_autograd.AutogradCompilerInstance:
        return compiled_autograd.AutogradCompilerInstance(compile_backward)

    torch._dynamo.reset()
    torch._C._dynamo.compiled_autograd.set_autograd_compiler(new_compiler, is_dynamic)
    compiled_autograd.compiled_autograd_enabled = True
    torch._dynamo.config.optimize_ddp = "python_reducer"
