"""Distributed runs. `distributed.hccl` is imported only when it is first used, because its import
changes the environment."""

from __future__ import annotations

from ..internal.submodules import on_demand

__getattr__ = on_demand(__name__, "hccl")
