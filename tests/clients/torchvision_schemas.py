"""Lets the CUDA build of torchvision, which is the only one that pip finds on most machines, be
imported beside PyTorch's CPU build.

torchvision describes two of its operators to PyTorch even where its library, which defines them,
cannot be loaded. A path file of the environment imports this module at each start; it declares
these operators when torchvision is first imported."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[Any] = []


class _BeforeTorchvision(MetaPathFinder):
    """Finds nothing itself; it acts before other finders find torchvision."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        if torch.version.cuda is None:
            library = torch.library.Library("torchvision", "FRAGMENT")
            for schema in _SCHEMAS:
                library.define(schema)
            _declared.append(library)


sys.meta_path.insert(0, _BeforeTorchvision())
