"""torchvision, where it is installed.

PyPI has only a build of torchvision for CUDA. Beside PyTorch's CPU build its library of operators
cannot be loaded, and its import fails because it describes two operators that then do not exist.
Its data sets and transforms need neither, so the two are declared here.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def import_torchvision() -> ModuleType | None:
    """None where it is not installed or, with a warning, where it cannot be imported."""
    try:
        return _import()
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


def _import() -> ModuleType:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)
    return importlib.import_module("torchvision")


torchvision = import_torchvision()
