"""torchvision beside a PyTorch that it was not built for.

PyPI has only a build of torchvision for CUDA. Beside PyTorch's CPU build its library of operators
cannot be loaded, and its import fails because it describes two operators that then do not exist.
Its models, data sets and transforms need neither, so the two are declared here. torchvision
never meets them where its library can be loaded.
"""

from __future__ import annotations

import torch

from .after_import import repair_import

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def _declare(error: Exception) -> bool:
    if "operator torchvision::nms does not exist" not in str(error):
        return False
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)
    return True


def watch() -> None:
    """Lets `import torchvision` succeed from now on. The module that describes the operators is
    watched, because torchvision may be what imports torch."""
    repair_import("torchvision._meta_registrations", _declare)
