"""How a process group backend becomes one of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


class _AnyCase(str):
    """A backend's name in upper case that equals the name in any case.

    PyTorch 2.13 looks for the first plugin's name, which it keeps in upper case, among the names of
    "cpu:gloo,hpu:hccl", which are in lower case. It finds none and sets no default backend.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.upper(self) == str.upper(other)


def describe_groups() -> list[str]:
    """Returns the name and the ranks of each group that this process has joined."""
    groups = dist.distributed_c10d._world.pg_names.items()
    return [f"{name} of {dist.get_process_group_ranks(group)}" for group, name in groups]


def register(name: str, device: str, make: Callable[[Any, Any], Any]) -> None:
    """`make` gets the options of the group and those of the backend, which may be None."""
    dist.Backend.register_backend(name, make, extended_api=True, devices=[device])
    plugins = dist.Backend._plugins
    plugins[_AnyCase(name.upper())] = plugins.pop(name.upper())
