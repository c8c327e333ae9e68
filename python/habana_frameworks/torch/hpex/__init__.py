"""Optimizers, clipping and kernels under the names that scripts written for Gaudi import."""

from __future__ import annotations

from ..internal.submodules import on_demand

__getattr__ = on_demand(
    __name__, "experimental", "hmp", "kernels", "movingavrg", "normalization", "optimizers"
)
