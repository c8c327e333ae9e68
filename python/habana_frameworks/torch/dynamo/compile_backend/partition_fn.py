"""The step before a joint graph of AOTAutograd is partitioned: copies that nobody needs go."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ...torch_compat.default_partition import default_partition
from ..settings import config


def _aliases(node: torch.fx.Node, source: torch.fx.Node, written: bool) -> bool:
    """Whether a call writes to `source` (written), or returns a view of it."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.op in ("call_function", "call_method")  # it is not known, so it may
    for place, argument in enumerate(schema.arguments):
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        if argument.alias_info is None or not _holds(given, source):
            continue
        if argument.alias_info.is_write or not written:
            return True
    return False


def _holds(value: Any, node: torch.fx.Node) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds(item, node) for item in value)
    return value is node


def _is_written(node: torch.fx.Node) -> bool:
    """Whether some call writes to the memory of a node's value, itself or through a view."""
    waiting, seen = [node], {node}
    while waiting:
        source = waiting.pop()
        for user in source.users:
            if _aliases(user, source, written=True):
                return True
            if user not in seen and _aliases(user, source, written=False):
                seen.add(user)
                waiting.append(user)
    return False


def _origin(node: torch.fx.Node) -> torch.fx.Node:
    """The node that made the memory of which a node's value is a view, as far as calls say."""
    while node.op == "call_function":
        viewed = [n for n in node.all_input_nodes if _aliases(node, n, written=False)]
        if not viewed:
            break
        node = viewed[0]
    return node


def _strides(node: torch.fx.Node) -> tuple[int, ...] | None:
    meta = node.meta.get("tensor_meta")
    if meta is not None:
        return tuple(meta.stride)
    value = node.meta.get("val")
    return tuple(value.stride()) if isinstance(value, torch.Tensor) else None


def remove_unnecessary_clone(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Removes the calls of aten.clone that keep the strides and whose source and result nobody
    writes to. A graph that returns its only call's result keeps it. Changes `gm` and returns it."""
    calls = sum(node.op == "call_function" for node in gm.graph.nodes)
    if calls <= 1:
        return gm
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or node.target is not torch.ops.aten.clone.default:
            continue
        source = node.all_input_nodes[0]
        strides = _strides(node)
        if strides is None or strides != _strides(source):
            continue
        if _is_written(node) or _is_written(_origin(source)):
            continue
        node.replace_all_uses_with(source)
        gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
    return gm


def hpu_partition(
    joint_module: torch.fx.GraphModule, _joint_inputs: Any, *, num_fwd_outputs: int, **kwargs: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Splits a joint graph as PyTorch does by default, without unnecessary clones."""
    if config.configuration_flags["remove_unnecessary_clones"]:
        joint_module = remove_unnecessary_clone(joint_module)
    parts: tuple[torch.fx.GraphModule, torch.fx.GraphModule] = default_partition(
        joint_module, _joint_inputs, num_fwd_outputs=num_fwd_outputs, **kwargs
    )
    return parts
