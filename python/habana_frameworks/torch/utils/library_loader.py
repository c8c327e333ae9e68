"""load_habana_module, the older spelling of the import (guide DEV-9), and whether there is a
device."""

from __future__ import annotations

from .. import native


def load_habana_module() -> None:
    """Does nothing: the import of habana_frameworks.torch has already registered the device with
    PyTorch."""


def is_habana_available() -> bool:
    """Whether there is a device, a card or the emulated one. Never raises."""
    return bool(native.torch_module().is_available())
