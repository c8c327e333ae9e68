"""load_habana_module, the older spelling of the import (guide DEV-9)."""

from __future__ import annotations


def load_habana_module() -> None:
    """Does nothing: the import of habana_frameworks.torch has already registered the device with
    PyTorch."""
