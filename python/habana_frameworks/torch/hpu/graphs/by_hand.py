"""Helpers for scripts that keep captures themselves: one capture per form of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ...internal import notices


def input_hash(obj: Any) -> int:
    """A hash of a tree of inputs: sizes, strides and types of tensors, and other values."""
    if isinstance(obj, torch.Tensor):
        return hash((obj.shape, obj.stride(), obj.dtype, obj.device.type))
    if isinstance(obj, Mapping):
        return hash(tuple((name, input_hash(item)) for name, item in obj.items()))
    if isinstance(obj, (list, tuple)):
        return hash(tuple(input_hash(item) for item in obj))
    return hash(obj)


def copy_to(dst: Any, src: Any) -> None:
    """Copies the tensors of a tree to those of another tree of the same structure."""
    if isinstance(dst, torch.Tensor):
        if dst is not src:
            dst.copy_(src, non_blocking=True)
    elif isinstance(dst, Mapping):
        for (name, old), (other, new) in zip(dst.items(), src.items(), strict=True):
            if name != other:
                raise ValueError(f"copy_to got '{other}' in the place of '{name}'")
            copy_to(old, new)
    elif isinstance(dst, (list, tuple)):
        for old, new in zip(dst, src, strict=True):
            copy_to(old, new)


class CachedParams:
    """A graph with its inputs and outputs."""

    def __init__(
        self,
        graph_inputs: Any,
        graph_outputs: Any,
        graph: Any,
        out_tinfo_list: Any = None,
        asynchronous: bool = False,
    ) -> None:
        self.graph_inputs = graph_inputs
        self.graph_outputs = graph_outputs
        self.graph = graph
        self.out_tinfo_list = out_tinfo_list
        self.asynchronous = asynchronous


class TensorPacker:
    """Takes a tree of tuples, lists and dicts apart into its tensors and the rest.

    verbose: warns of values that are neither trees nor tensors and so stay as they are packed.
    is_out_pack changes nothing.
    """

    class Index(NamedTuple):
        """Stands for a tensor in the rest of a tree."""

        value: int

        def __repr__(self) -> str:
            return f"#{self.value}"

    def __init__(self, is_out_pack: bool = False, verbose: bool = False) -> None:
        self._verbose = verbose

    def pack(self, outs: Any) -> tuple[tuple[torch.Tensor, ...], Any]:
        """The tensors, and the tree with an Index in the place of each."""
        tensors: list[torch.Tensor] = []

        def pack(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                tensors.append(leaf)
                return self.Index(len(tensors) - 1)
            if self._verbose:
                notices.once(f"a {type(leaf).__name__} stays as it is when it is packed")
            return leaf

        metadata = _mapped(outs, pack)
        return tuple(tensors), metadata

    def unpack(self, tensors: Any, metadata: Any) -> Any:
        """The tree that pack() took apart, with other tensors."""
        return _mapped(metadata, lambda leaf: tensors[leaf.value] if _is_index(leaf) else leaf)


def _is_index(value: Any) -> bool:
    return isinstance(value, TensorPacker.Index)


def _mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    kind: Any = type(tree)
    if isinstance(tree, Mapping):
        return kind({name: _mapped(item, change) for name, item in tree.items()})
    if isinstance(tree, (list, tuple)) and not _is_index(tree):
        items = [_mapped(item, change) for item in tree]
        return kind(*items) if hasattr(tree, "_fields") else kind(items)
    return change(tree)
