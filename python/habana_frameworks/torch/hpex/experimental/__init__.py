"""Parts of hpex whose arguments may still change."""

from __future__ import annotations

from ...internal.submodules import on_demand

__getattr__ = on_demand(__name__, "transformer_engine")
