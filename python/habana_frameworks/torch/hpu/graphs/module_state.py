"""The tensors and modes of a module that its captured calls depend on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from ... import native
from .values import NotCapturable


class Replaced(NotCapturable):
    """A call gives the module another tensor, which a replay would not do."""


class _Place(NamedTuple):
    """The place at which a module has a tensor."""

    part: nn.Module
    found: dict[str, Any]  # the part's parameters, buffers or attributes
    name: str


class ModuleState:
    """Parameters, buffers, other tensors and modes of a module with its submodules. They are looked
    up at each call, in the places where look() has found some."""

    def __init__(self, module: nn.Module | None) -> None:
        self._module = module
        self._places: list[_Place] = []
        self._parts: list[nn.Module] = []
        # Places that have one tensor: the later one and the first one.
        self._tied: dict[int, int] = {}

    def look(self) -> None:
        """Finds the submodules and tensors that the module has now."""
        if self._module is None:
            return
        self._parts = list(self._module.modules())
        self._places = [
            _Place(part, found, name)
            for part, found in self._attributes()
            for name, value in found.items()
            if _is_on_device(value)
        ]
        first: dict[int, int] = {}
        self._tied = {}
        for i, tensor in enumerate(self._all()):
            if first.setdefault(id(tensor), i) != i:
                self._tied[i] = first[id(tensor)]

    def _attributes(self) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
        for part in self._parts:
            for found in (part._parameters, part._buffers, vars(part)):
                yield part, found

    def _all(self) -> list[torch.Tensor]:
        return [found[name] for _, found, name in self._places]

    def tensors(self) -> list[torch.Tensor]:
        """The tensors of the module, each once."""
        if not self._parts:
            self.look()
        try:
            tensors = self._all()
        except KeyError:
            self.look()
            tensors = self._all()
        if not self._tied:
            return tensors
        if any(tensors[i] is not tensors[k] for i, k in self._tied.items()):
            self.look()
            tensors = self._all()
        return [tensor for i, tensor in enumerate(tensors) if i not in self._tied]

    def modes(self) -> Hashable:
        return tuple([part.training for part in self._parts])

    @contextmanager
    def stood_in_for(self) -> Iterator[list[torch.Tensor]]:
        """Puts tensors that stand for others in the places of tensors() while the block runs. What
        else the block changes stays only if it raises nothing. Raises Replaced if it gives the
        module another tensor."""
        before = [(found, dict(found)) for _, found in self._attributes()]
        of = {id(tensor): _stand_in_for(tensor) for tensor in self.tensors()}
        tensors = self._all()
        try:
            self._set([of[id(tensor)] for tensor in tensors])
            yield list(of.values())
            self._check(before, of)
        except BaseException:
            for found, items in before:
                found.clear()
                found.update(items)
            raise
        finally:
            self._set(tensors)

    def _set(self, tensors: list[torch.Tensor]) -> None:
        for (part, _, name), tensor in zip(self._places, tensors, strict=True):
            setattr(part, name, tensor)  # recurrent modules have a second list of their weights

    def _check(
        self, before: list[tuple[dict[str, Any], dict[str, Any]]], of: dict[int, torch.Tensor]
    ) -> None:
        for found, items in before:
            for name, value in found.items():
                old = items.get(name)
                if isinstance(value, torch.Tensor) and value is not of.get(id(old), old):
                    raise Replaced(f"each call gives the module another tensor '{name}'")


def _is_on_device(value: Any) -> bool:
    return type(value) in (torch.Tensor, nn.Parameter) and value.device.type == "hpu"


def _stand_in_for(tensor: torch.Tensor) -> torch.Tensor:
    stand_in: torch.Tensor = native.torch_module().stand_in_for(tensor)
    if isinstance(tensor, nn.Parameter):
        stand_in = nn.Parameter(stand_in, tensor.requires_grad)
    else:
        stand_in.requires_grad_(tensor.requires_grad)
    vars(stand_in).update(vars(tensor))
    return stand_in
