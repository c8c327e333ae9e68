"""The torch.compile backend and what belongs to it.

Dynamo's entry point takes `hpu_backend` from here. The connection to the compile server begins at
its first use, not at this import: programs import `config` long before they compile, and some
never compile.
"""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = (
    "backends",
    "compilers",
    "config",
    "experimental",
    "partition_fn",
    "passes",
    "random_utils",
    "recipe_compiler",
    "shared_layer",
)


def __getattr__(name: str) -> Any:
    if name == "hpu_backend":
        return importlib.import_module(f"{__name__}.backends").hpu_backend
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
