"""The devices, types and process groups of a program for CUDA, and what they are here."""

from __future__ import annotations

from typing import Any

import torch


def to_hpu(value: Any) -> Any:
    """hpu for a device of the type cuda; every other value as it is."""
    if isinstance(value, str):
        return "hpu" + value[4:] if value.partition(":")[0] == "cuda" else value
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("hpu") if value.index is None else torch.device("hpu", value.index)
    return value


def all_to_hpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The arguments of a call with hpu in place of cuda. None if no argument is a device of
    that type."""
    for value in (*args, *kwargs.values()):
        if to_hpu(value) is not value:
            break
    else:
        return None
    return tuple([to_hpu(a) for a in args]), {name: to_hpu(a) for name, a in kwargs.items()}


def to_hccl(backend: Any) -> Any:
    """ "cpu:gloo,hpu:hccl" for "cpu:gloo,cuda:nccl"."""
    if not isinstance(backend, str):
        return backend
    return backend.replace("nccl", "hccl").replace("cuda", "hpu")


def to_nccl(backend: str) -> str:
    """The name of a backend that a program for CUDA expects to read."""
    return backend.replace("hccl", "nccl").replace("hpu", "cuda")
