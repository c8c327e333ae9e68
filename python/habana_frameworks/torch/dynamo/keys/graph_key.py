"""The front-end key's view of a Dynamo graph: a canonical text and the factors beside it.

Names are not part of it (nodes are numbered), nor is anything of the host; constants enter by their
content. A value that cannot be described by content (an opaque callable) makes the graph
uncacheable, with a reason.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import Node

from ... import native
from ...torch_compat.ops import OpOverload, OpOverloadPacket
from ..capture.decompositions.int4_weights import block_columns
from ..capture.inputs import GraphInputs, is_weight
from ..capture.wire import tensor_bytes
from ..fingerprints.function_text import Uncacheable, function_text, method_text, registrations_text
from .code_digest import code_digest

Factors = list[tuple[str, str]]

# The argument of an operator that is the name of a process group.
_GROUP_NAME = "group_name"

# Inputs are listed one by one up to this number, so that a miss can be explained by reading.
_LISTED_INPUTS = 16


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _place_of_group(target: Any) -> int | None:
    """Where an operator takes the name of a process group."""
    operator = getattr(target, "default", None) if isinstance(target, OpOverloadPacket) else target
    if not isinstance(operator, OpOverload):
        return None
    names = [argument.name for argument in operator._schema.arguments]
    return names.index(_GROUP_NAME) if _GROUP_NAME in names else None


class _Canonical:
    def __init__(self, inputs: GraphInputs) -> None:
        self.constants = inputs.constants
        self.attributes = {path: number for number, path in enumerate(inputs.attributes)}
        self.names: dict[Node, str] = {}
        self.functions: dict[Any, str] = {}
        self.group_places: dict[Any, int] = {}  # by operator that takes a group's name
        self.group_in_programs = native.torch_module().group_in_programs

    def token(self, value: Any) -> str:
        kind = type(value)
        if kind is Node:
            return self.names[value]
        if value is None or kind in (bool, int, str):
            return repr(value)
        if kind is float:
            return str(value.hex())
        if kind is complex:
            return f"complex({value.real.hex()},{value.imag.hex()})"
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return str(value)
        if isinstance(value, torch.device):
            return f"device({value.type})"
        if isinstance(value, slice):
            return f"slice({self.tokens((value.start, value.stop, value.step))})"
        if value is Ellipsis:
            return "..."
        if isinstance(value, (tuple, torch.Size)):
            return f"({self.tokens(value)})"
        if isinstance(value, list):
            return f"[{self.tokens(value)}]"
        if isinstance(value, dict):
            return "{" + self.tokens([p for item in value.items() for p in item]) + "}"
        raise Uncacheable(f"an argument of type {kind.__name__} has no canonical text")

    def tokens(self, values: Sequence[Any]) -> str:
        # Most values are nodes, so this avoids a call for each of them.
        names = self.names
        return ",".join([names[v] if type(v) is Node else self.token(v) for v in values])

    def function(self, target: Any) -> str:
        text = self.functions.get(target)
        if text is None:
            text = self.functions[target] = function_text(target)
            place = _place_of_group(target)
            if place is not None:
                self.group_places[target] = place
        return text

    def line(self, node: Node) -> str:
        if node.op == "get_attr":
            path = str(node.target)
            constant = self.constants.get(path)
            if constant is None:
                return f"attribute {self.attributes[path]}"
            content = hashlib.sha256(tensor_bytes(constant)).hexdigest()
            return f"constant {native.torch_module().describe(constant)} {content}"
        if node.op == "output":
            return f"return {self.token(node.args[0])}"
        if node.op == "call_function":
            target = self.function(node.target)
        else:
            target = method_text(str(node.target))
        args, kwargs = node.args, node.kwargs
        if node.target in self.group_places:
            args, kwargs = self.with_groups_by_place(node)
        named = self.token(dict(kwargs)) if kwargs else "{}"
        return f"{target}({self.tokens(args)};{named})"

    def with_groups_by_place(self, node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with process groups as programs call them."""

        def in_programs(value: Any) -> Any:
            return self.group_in_programs(value) if isinstance(value, str) else value

        place = self.group_places[node.target]
        args = (
            *node.args[:place],
            *map(in_programs, node.args[place : place + 1]),
            *node.args[place + 1 :],
        )
        kwargs = {k: in_programs(v) if k == _GROUP_NAME else v for k, v in node.kwargs.items()}
        return args, kwargs


def canonical_text(module: torch.fx.GraphModule, inputs: GraphInputs) -> str:
    """One line per node; equal graphs give equal texts in every process."""
    canonical = _Canonical(inputs)
    lines: list[str] = []
    for number, node in enumerate(module.graph.nodes):
        canonical.names[node] = f"%{number}"
        if node.op == "placeholder":
            lines.append("weight" if is_weight(node) else "input")
        else:
            lines.append(canonical.line(node))
    return "\n".join(lines)


def _input_texts(values: Sequence[Any]) -> list[str]:
    describe = native.torch_module().describe
    return [
        (describe(value) + (" grad" if value.requires_grad else ""))
        if isinstance(value, torch.Tensor)
        else f"{type(value).__name__} {value.hex() if isinstance(value, float) else value}"
        for value in values
    ]


# The folders whose modules make captured graphs of Dynamo graphs, or decide what Dynamo traces.
GRAPH_MAKERS = ("dynamo/capture", "dynamo/fingerprints", "dynamo/patches", "ops", "torch_compat")


def capture_digest() -> str:
    """A digest of GRAPH_MAKERS, because changed code may make another graph of a Dynamo graph with
    the same key.

    A change costs a capture, and a compilation only where the captured graph differs.
    """
    return code_digest(*GRAPH_MAKERS)


@functools.cache
def _file_digest(path: str, *_: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def extensions_text() -> str:
    """Describes the content of the libraries that may have registered native code for operators;
    "none" without such a library. Raises Uncacheable."""
    digests = []
    for path in native.torch_module().extension_libraries():
        try:
            found = os.stat(path)
            digests.append(_file_digest(path, found.st_ino, found.st_mtime_ns, found.st_size))
        except OSError as error:
            raise Uncacheable(f"library {path}, which is loaded, cannot be read: {error}") from None
    return _digest("\n".join(sorted(digests))) if digests else "none"


def custom_kernels_text() -> str:
    """Describes the kernels of the libraries that GC_KERNEL_PATH names; "none" without one."""
    if not os.environ.get("GC_KERNEL_PATH"):
        return "none"
    return _digest(native.torch_module().list_custom_kernels())


@functools.cache
def _autocast_lists_text() -> str:
    """Describes which operators autocast casts, which a graph may enable by itself."""
    rules = native.torch_module().autocast_rules()
    return _digest("\n".join(f"{name} {way}" for name, way in rules))


def ambient_factors() -> Factors:
    """PyTorch's global state that changes results. Raises Uncacheable."""
    autocast = [
        f"{kind}:{torch.get_autocast_dtype(kind)}"
        for kind in ("hpu", "cpu")
        if torch.is_autocast_enabled(kind)
    ]
    return [
        ("capture", capture_digest()),
        ("torch", torch.__version__.partition("+")[0]),
        ("python", f"{sys.version_info.major}.{sys.version_info.minor}"),
        ("grad_mode", str(torch.is_grad_enabled())),
        ("inference_mode", str(torch.is_inference_mode_enabled())),
        ("autocast", " ".join(autocast) or "off"),
        ("autocast_lists", _autocast_lists_text()),
        ("default_dtype", str(torch.get_default_dtype())),
        ("float32_matmul_precision", torch.get_float32_matmul_precision()),
        ("int4_weight_columns", str(block_columns())),
        ("registrations", registrations_text()),
        ("extensions", extensions_text()),
        ("custom_kernels", custom_kernels_text()),
    ]


def graph_factors(
    module: torch.fx.GraphModule, inputs: GraphInputs, values: Sequence[Any]
) -> Factors:
    """The factors of one graph with these input values (placeholders, then attributes).

    Raises Uncacheable.
    """
    text = canonical_text(module, inputs)
    described = _input_texts(values)
    count = len(module.graph.nodes)
    factors = [("graph", _digest(text)), ("nodes", str(count)), ("inputs", str(len(values)))]
    parameter = torch.nn.Parameter  # its isinstance is a Python function, which is slow
    listed = (
        i
        for i, value in enumerate(values)
        if type(value) is not parameter and not isinstance(value, parameter)
    )
    factors += [(f"input {i}", described[i]) for i in itertools.islice(listed, _LISTED_INPUTS)]
    factors.append(("all inputs", _digest("\n".join(described))))
    return factors + ambient_factors()
