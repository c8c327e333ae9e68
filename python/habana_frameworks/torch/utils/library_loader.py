"""load_habana_module, the older spelling of the import (guide DEV-9)."""

from __future__ import annotations


def load_habana_module() -> None:
    """Makes PyTorch know the device; `import habana_frameworks.torch` has already done it."""
    import habana_frameworks.torch  # noqa: F401
