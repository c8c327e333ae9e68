"""Training utilities."""

from __future__ import annotations

from .library_loader import load_habana_module as load_habana_module
