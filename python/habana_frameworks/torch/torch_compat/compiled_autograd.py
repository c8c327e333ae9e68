"""Compiled autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.compiled_autograd import AutogradCompilerInstance as AutogradCompilerInstance


def turn_on(new_compiler: Callable[[], Any], is_dynamic: bool) -> None:
    """Backward passes of this process are traced by a compiler that `new_compiler` makes."""
    torch._C._dynamo.compiled_autograd.set_autograd_compiler(new_compiler, is_dynamic)
    compiled_autograd.compiled_autograd_enabled = True
