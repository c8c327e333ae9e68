"""torchvision, where it is installed.

Importing torch has imported habana_frameworks.torch, beside which PyPI's torchvision, a build for
CUDA, can be imported although PyTorch is the CPU build.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import torch  # noqa: F401


def import_torchvision() -> ModuleType | None:
    """None where it is not installed or, with a warning, where it cannot be imported."""
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        if error.name == "torchvision":
            return None
        problem: Exception = error
    except (ImportError, RuntimeError, OSError) as error:
        problem = error
    warnings.warn(
        f"torchvision is installed but cannot be imported, so HabanaDataLoader only loads as "
        f"PyTorch's DataLoader does: {problem}",
        stacklevel=2,
    )
    return None


torchvision = import_torchvision()
