"""Imports all that a short script needs but this package, in the interpreter that is forked.

The package comes with the fork, as in a fresh interpreter, because its import reads variables of
the environment. PyTorch's own import would bring it along (its automatic loading of devices).
"""

from __future__ import annotations

import importlib
import os
import sys

_AUTOMATIC = "TORCH_DEVICE_BACKEND_AUTOLOAD"

# The larger part of what PyTorch imports until a graph with DTensors is compiled.
_IMPORTED = [
    "torch",
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor.lowering",
    "torch._inductor.pattern_matcher",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
]

# The path of a fork has no place for this folder, which is on the path for this module alone.
PATH = [entry for entry in sys.path[1:] if entry != os.path.dirname(__file__)]

_before = os.environ.get(_AUTOMATIC)
os.environ[_AUTOMATIC] = "0"
for _name in _IMPORTED:
    importlib.import_module(_name)
if _before is None:
    del os.environ[_AUTOMATIC]
else:
    os.environ[_AUTOMATIC] = _before


def load_devices() -> None:
    """Does what the import of PyTorch does at its end."""
    import torch

    if torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()
