"""Submodules that are imported when they are first used, so that the package's import stays
cheap."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType


def on_demand(package: str, *names: str) -> Callable[[str], ModuleType]:
    """A module `__getattr__` that imports package.<name> for each of `names`."""

    def import_submodule(name: str) -> ModuleType:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return import_submodule
