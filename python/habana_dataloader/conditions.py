"""When HabanaDataLoader decodes itself: what the guide lists, and what its words leave open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from . import geometry
from .geometry import Step
from .vision import torchvision

# The parameters of torch.utils.data.DataLoader that have one supported value. Left out are
# batch_size, sampler and drop_last, which are free, and pin_memory_device, which PyTorch ignores.
REQUIRED: dict[str, Any] = {
    "shuffle": False,
    "batch_sampler": None,
    "num_workers": 8,
    "collate_fn": None,
    "pin_memory": True,
    "timeout": 0,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "generator": None,
    "prefetch_factor": 2,
    "persistent_workers": False,
    "in_order": True,
}
# PyTorch takes None for these values.
_NONE_IS = {"shuffle": False, "prefetch_factor": 2}
SUFFIXES = (".jpg", ".jpeg")
MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


class Unsupported(ValueError):
    """Why the native loader is used; the text is the guide's {error message}."""


def check_parameters(given: Mapping[str, Any]) -> None:
    for name, required in REQUIRED.items():
        value = given.get(name, required)
        if value is None:
            value = _NONE_IS.get(name)
        if value is not required and (required is None or value != required):
            raise Unsupported(f"'{name}' must be {required!r} and is {value!r}")
    if given.get("batch_size", 1) is None:
        raise Unsupported("'batch_size' must be a number and is None")


def check_dataset(dataset: Any) -> None:
    if torchvision is None:
        raise Unsupported(
            "'dataset' must be a torchvision ImageFolder, and there is no torchvision"
        )
    folder = torchvision.datasets.ImageFolder
    if not isinstance(dataset, folder):
        kind = type(dataset).__name__
        raise Unsupported(f"'dataset' must be a torchvision.datasets.ImageFolder and is a {kind}")
    if type(dataset).__getitem__ is not folder.__getitem__ or hasattr(dataset, "__getitems__"):
        kind = type(dataset).__name__
        raise Unsupported(f"'dataset' must take its items as ImageFolder does, and {kind} does not")
    loaders = (torchvision.datasets.folder.default_loader, torchvision.datasets.folder.pil_loader)
    if dataset.loader not in loaders or torchvision.get_image_backend() != "PIL":
        raise Unsupported("the data set must load images with Pillow, by its default loader")
    if dataset.target_transform is not None:
        raise Unsupported("'target_transform' of the data set must be None")
    for path, _ in dataset.samples:
        if not path.lower().endswith(SUFFIXES):
            raise Unsupported(f"files must be {' or '.join(SUFFIXES)}, and the data set has {path}")


def steps_of(transform: Any) -> tuple[list[Step], bool]:
    """Returns the steps for the frame of each image, and whether it is normalised at the end."""
    assert torchvision is not None
    names = torchvision.transforms
    if type(transform) is not names.Compose:
        kind = type(transform).__name__
        raise Unsupported(f"the data set's transform must be transforms.Compose and is {kind}")
    steps: list[Step] = []
    parts = list(transform.transforms)
    geometric = {
        names.RandomResizedCrop: geometry.random_resized_crop,
        names.CenterCrop: geometry.center_crop,
        names.Resize: geometry.resize,
        names.RandomHorizontalFlip: geometry.random_horizontal_flip,
    }
    while parts and type(parts[0]) in geometric:
        part = parts.pop(0)
        _check_part(part)
        steps.append(geometric[type(part)](part))
    kinds = [type(part) for part in parts]
    if kinds not in ([names.ToTensor], [names.ToTensor, names.Normalize]):
        allowed = {*geometric, names.ToTensor, names.Normalize}
        strange = next((kind.__name__ for kind in kinds if kind not in allowed), None)
        if strange is not None:
            raise Unsupported(f"the transform {strange} is not supported")
        raise Unsupported("transforms must end with ToTensor, or with ToTensor and Normalize")
    if torch.get_default_dtype() is not torch.float32:
        raise Unsupported("PyTorch's default dtype must be torch.float32")
    for part in parts[1:]:
        _check_normalization(part)
    return steps, len(parts) == 2


def _check_part(part: Any) -> None:
    assert torchvision is not None
    name = type(part).__name__
    bilinear = torchvision.transforms.InterpolationMode.BILINEAR
    if getattr(part, "interpolation", bilinear) != bilinear:
        raise Unsupported(f"'interpolation' of {name} must be BILINEAR")
    if getattr(part, "max_size", None) is not None:
        raise Unsupported(f"'max_size' of {name} must be None")
    if isinstance(part, torchvision.transforms.RandomHorizontalFlip) and part.p != 0.5:
        raise Unsupported(f"'p' of {name} must be 0.5 and is {part.p}")


def _check_normalization(part: Any) -> None:
    for name, required in (("mean", MEAN), ("std", STD)):
        value = torch.as_tensor(getattr(part, name)).tolist()
        if torch.tensor(value).tolist() != torch.tensor(required).tolist():
            raise Unsupported(f"'{name}' of Normalize must be {required} and is {value}")
