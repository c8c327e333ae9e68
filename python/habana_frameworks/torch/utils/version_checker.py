"""Comparisons with the version of PyTorch, by release alone: 2.13.0a1+cpu counts as 2.13.0."""

from __future__ import annotations

import torch

_Release = tuple[int, ...]


def _release(version: str) -> _Release:
    """The numbers of a release, without zeros at the end: "2.13.0" and "2.13" are the same."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = len(part) - len(part.lstrip("0123456789"))
        if not digits:
            break
        numbers.append(int(part[:digits]))
        if digits != len(part):
            break
    if not numbers:
        raise ValueError(f"{version!r} is not the number of a release, such as 2.13")
    while numbers[-1:] == [0]:
        numbers.pop()
    return tuple(numbers)


def _own() -> _Release:
    return _release(torch.__version__)


def is_pytorch_at_least(version: str) -> bool:
    """Whether PyTorch is of this release or a later one."""
    return _own() >= _release(version)


def is_pytorch_older_than(version: str) -> bool:
    """Whether PyTorch is of an earlier release."""
    return _own() < _release(version)


def is_pytorch_exactly(version: str) -> bool:
    """Whether PyTorch is of this release."""
    return _own() == _release(version)
