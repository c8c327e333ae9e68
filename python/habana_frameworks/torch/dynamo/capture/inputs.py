"""The inputs of a Dynamo graph: placeholders, module attributes, and their example values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ...torch_compat.fakes import FakeTensor, FakeTensorMode
from ...torch_compat.graph_calls import (
    enter_autocast,
    enter_inference_mode,
    exit_autocast,
    log_api_usage_once,
    set_grad_enabled,
)
from ...torch_compat.modes import is_traceable_wrapper_subclass
from ...torch_compat.trees import tree_leaves
from .wire import CaptureError, is_static

# Calls that matter to the process, not to the result.
NO_EFFECT = frozenset({log_api_usage_once})
# Calls that switch gradients on or off: without inputs that require them there is nothing to do.
GRAD_SWITCHES = frozenset({set_grad_enabled})
INFERENCE_SWITCH = enter_inference_mode
AUTOCAST = frozenset({enter_autocast, exit_autocast})

# The module of functions that compiled autograd puts into its graphs.
_AUTOGRAD_CALLS = "torch._dynamo.compiled_autograd.ops"

# A plain tensor attribute of at most this size is a constant by content. A larger one, a parameter
# or a buffer is an input.
CONSTANT_BYTES = 64 * 1024


@dataclass(frozen=True)
class GraphInputs:
    """Inputs in the order of the program: placeholders, then module attributes."""

    placeholders: list[torch.fx.Node]
    # The first get_attr node and the path of each attribute that is an input.
    attributes: dict[str, torch.fx.Node]
    # get_attr paths that are constants by content.
    constants: dict[str, torch.Tensor]


def attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _is_constant(module: torch.nn.Module, path: str, value: torch.Tensor) -> bool:
    owner_path, _, name = path.rpartition(".")
    owner = attribute(module, owner_path) if owner_path else module
    if isinstance(value, torch.nn.Parameter):
        return False
    if name in getattr(owner, "_buffers", {}) and not name.startswith("_tensor_constant"):
        return False
    return value.numel() * value.element_size() <= CONSTANT_BYTES


def is_weight(node: torch.fx.Node) -> bool:
    """Whether a placeholder is a parameter or buffer of a module, by Dynamo's own mark."""
    return "_dynamo_static_input_type" in node.meta.get("tensor_dict", ())


def example_of(node: torch.fx.Node) -> Any:
    """The value that Dynamo, or AOTAutograd in its graphs, notes for a node; None if there is
    none."""
    return node.meta.get("example_value", node.meta.get("val"))


_AS_STRIDED = frozenset(
    {"as_strided", "as_strided_", torch.as_strided, torch.ops.aten.as_strided.default}
)


def _memory(node: torch.fx.Node) -> int | None:
    """The memory in which a node's tensor lies, according to the example values."""
    value = example_of(node)
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _refuse_absolute_offsets(module: torch.fx.GraphModule) -> None:
    """Refuses as_strided with an offset. The offset counts from where an input's memory starts, but
    a program counts from the input's first element, and an input of the next call may lie elsewhere
    in its memory."""
    sources: set[int | None] = {None}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            sources.add(_memory(node))
        elif node.target in _AS_STRIDED:
            offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
            base = node.args[0] if node.args else node.kwargs.get("input", node.kwargs.get("self"))
            if offset is not None and (
                not isinstance(base, torch.fx.Node) or _memory(base) in sources
            ):
                raise CaptureError("as_strided with an offset into an input's memory")


def of_compiled_autograd(module: torch.fx.GraphModule) -> bool:
    """True if the graph calls opaque C++ functions of the process, whose writes to .grad cannot be
    recorded."""
    return any(getattr(n.target, "__module__", "") == _AUTOGRAD_CALLS for n in module.graph.nodes)


def follows_gradients(module: torch.fx.GraphModule) -> bool:
    """Whether autograd sees any part of a graph that is called in the present grad mode: the graph
    itself may switch gradients on."""
    return torch.is_grad_enabled() or any(
        node.target in GRAD_SWITCHES and node.args[0] is True for node in module.graph.nodes
    )


def left_grad_mode(module: torch.fx.GraphModule) -> bool:
    """The grad mode that a graph leaves behind in its caller's thread."""
    switches = [node.args[0] for node in module.graph.nodes if node.target in GRAD_SWITCHES]
    return bool(switches[-1]) if switches else torch.is_grad_enabled()


def graph_inputs(module: torch.fx.GraphModule) -> GraphInputs:
    """Sorts the sources of a graph. Raises CaptureError for attributes that are not tensors, for
    inputs that are tensors made of others, and for offsets that have no meaning in a program."""
    inputs = GraphInputs([], {}, {})
    _refuse_absolute_offsets(module)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            example = node.meta.get("example_value")
            if is_traceable_wrapper_subclass(example):
                raise CaptureError(f"input {node.name} is a {type(example).__name__}")
            inputs.placeholders.append(node)
        elif node.op == "get_attr":
            path = str(node.target)
            value = attribute(module, path)
            if isinstance(value, torch.fx.GraphModule):
                raise CaptureError("the graph has a higher-order operation (a nested graph)")
            if not isinstance(value, torch.Tensor):
                raise CaptureError(f"attribute {path} is a {type(value).__name__}")
            if _is_constant(module, path, value):
                inputs.constants[path] = value
            else:
                inputs.attributes.setdefault(path, node)
        elif node.op == "call_module":
            raise CaptureError(f"the graph calls module {node.target} as a whole")
    return inputs


def has_symbols(values: Sequence[Any]) -> bool:
    """True if a number or a tensor size among the values is symbolic."""
    for value in values:
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return True
        if isinstance(value, torch.Tensor) and not is_static(value):
            return True
    return False


def _has_hint(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> bool:
    """Whether the number's value is known. The node of a nested tensor's size has no hint."""
    has_hint = getattr(number.node, "has_hint", None)
    return has_hint is not None and bool(has_hint())


def without_symbols(values: Sequence[Any]) -> list[Any] | None:
    """Fake tensors and numbers of the sizes that the symbols had when they were made; None if one
    of the symbols depends on data."""
    symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
    numbers = [number for value in values for number in _numbers(value)]
    if not all(_has_hint(n) for n in numbers if isinstance(n, symbols)):
        return None
    mode = FakeTensorMode()

    def known(value: Any) -> Any:
        if isinstance(value, symbols):
            return value.node.hint
        if not isinstance(value, torch.Tensor):
            return value
        shape, stride = map(known, value.shape), map(known, value.stride())
        with mode:
            return torch.empty_strided(
                tuple(shape), tuple(stride), dtype=value.dtype, device=value.device
            )

    return [known(value) for value in values]


def _numbers(value: Any) -> Sequence[Any]:
    return [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]


def has_offset(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.storage_offset() != 0


def fake_input(mode: FakeTensorMode, value: torch.Tensor) -> torch.Tensor:
    """A fake tensor for a graph input that starts at the first element of its memory.

    It is never an inference tensor: functionalization and counters of versions refuse these."""
    if not (has_offset(value) or isinstance(value, FakeTensor) or value.is_inference()):
        return mode.from_tensor(value, static_shapes=True)
    with mode:
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )


def example_values(module: torch.fx.GraphModule) -> dict[torch.fx.Node, Any] | None:
    """Dynamo's example value of every node; None if some are missing or symbolic, or if an input
    starts inside its memory (on the wire, offsets count from an input's first element)."""
    values: dict[torch.fx.Node, Any] = {}
    for node in module.graph.nodes:
        if node.op in ("output", "get_attr"):
            continue
        if node.target in NO_EFFECT or node.target in GRAD_SWITCHES or node.target in AUTOCAST:
            continue
        if "example_value" not in node.meta:
            return None
        value = node.meta["example_value"]
        leaves = tree_leaves(value)
        if has_symbols(leaves):
            return None
        if any(isinstance(v, torch.Tensor) and not isinstance(v, FakeTensor) for v in leaves):
            return None
        if node.op == "placeholder" and has_offset(value):
            return None
        values[node] = value
    return values


class _Propagator(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, mode: FakeTensorMode) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.mode = mode
        self.values: dict[torch.fx.Node, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "get_attr" and isinstance(result, torch.Tensor):
            result = fake_input(self.mode, result)
        if n.op != "output":
            self.values[n] = result
        return result


def propagate(module: torch.fx.GraphModule, arguments: Sequence[Any]) -> dict[torch.fx.Node, Any]:
    """Runs the graph on fake tensors with the sizes of `arguments` (tensors and numbers)."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    propagator = _Propagator(module, mode)
    with torch.inference_mode(False), torch.no_grad():
        fakes = [fake_input(mode, a) if isinstance(a, torch.Tensor) else a for a in arguments]
        with mode:
            propagator.run(*fakes)
    return propagator.values
