"""Training utilities."""

from __future__ import annotations

from ..internal.submodules import on_demand
from .library_loader import load_habana_module as load_habana_module

__getattr__ = on_demand(
    __name__, "debug", "experimental", "internal", "profiler", "version_checker"
)
