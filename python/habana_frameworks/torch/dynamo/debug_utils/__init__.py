"""Loggers of the backend under the name that programs for Gaudi know."""

from __future__ import annotations

from ...internal.submodules import on_demand

__getattr__ = on_demand(__name__, "logger")
