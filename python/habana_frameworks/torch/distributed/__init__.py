"""Distributed runs; `distributed.hccl` comes when it is asked for, because its import changes the
environment."""

from __future__ import annotations

from ..internal.submodules import on_demand

__getattr__ = on_demand(__name__, "hccl")
