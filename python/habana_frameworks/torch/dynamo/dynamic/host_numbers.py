"""Python floats of a Dynamo graph that change from call to call and become inputs of its program.

Dynamo hands a float that has changed to the graph as a 0-d f64 tensor on the CPU and reads it with
item(). A number that Python computes from it (2 * s, sqrt(s)) is computed in Python here too, in
double, on the host, at every call. Where such a number meets a tensor in an op that takes a 0-d
tensor in its place (TENSOR_FORMS), it is an input of the program. Anywhere else (an argument like
`value` or `eps`) it is part of the program, which then holds for one value only (dynamic_graph.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg

from ..capture.wire import CaptureError

_BINARY = ("mul", "add", "sub", "div", "pow", "gt", "lt", "ge", "le", "eq", "ne")
# Calls in which a 0-d tensor means what a number in its place means.
TENSOR_FORMS: frozenset[Any] = frozenset(
    [getattr(operator, name) for name in _BINARY if hasattr(operator, name)]
    + [getattr(torch, name) for name in _BINARY]
    + [torch.multiply, torch.subtract, torch.divide, torch.true_divide, torch.rsub]
    + [operator.truediv, *_BINARY, "multiply", "subtract", "divide", "true_divide"]
)
# Element types for which eager mode calculates a product with a number in f32, and rounds once.
_NARROW = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class HostNumbers:
    """A graph in two parts.

    module: the graph without arithmetic on changing numbers. Its inputs are the remaining inputs of
    the Dynamo graph, then a 0-d tensor on the CPU or a float per number that the host computes.
    compute: the host's part. From all inputs of the Dynamo graph it computes those numbers, then
    the outputs of the Dynamo graph that depend on no tensor of the device.
    """

    module: torch.fx.GraphModule
    compute: Callable[..., tuple[Any, ...]]
    kept: list[int]
    dtypes: list[torch.dtype | None]  # by number; None is a float, which is part of the program
    # By output of the Dynamo graph: whether it is an output of `module` (True) or of the host.
    on_device: list[bool]

    def bind(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """The Dynamo graph as a function. program: has the arguments and results of `module`."""

        def call(*args: Any) -> Any:
            numbers = self.compute(*args)
            entered = [
                number if dtype is None else torch.tensor(number, dtype=dtype)
                for number, dtype in zip(numbers, self.dtypes, strict=False)
            ]
            results = program(*(args[i] for i in self.kept), *entered)
            if all(self.on_device):
                return results
            from_program, from_host = iter(results), iter(numbers[len(self.dtypes) :])
            return tuple(next(from_program if on else from_host) for on in self.on_device)

        return call


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_float_input(node: torch.fx.Node) -> bool:
    """Whether the node is a Python float in the form in which Dynamo passes it."""
    value = node.meta.get("example_value")
    return (
        node.op == "placeholder"
        and isinstance(value, torch.Tensor)
        and value.dtype is torch.float64
        and value.dim() == 0
        and value.device.type == "cpu"
        and all(user.op == "call_method" and user.target == "item" for user in node.users)
    )


def _host_nodes(graph: torch.fx.Graph) -> dict[torch.fx.Node, None]:
    """The nodes that the host computes: item() of a float input, and numbers computed from
    these."""
    found: dict[torch.fx.Node, None] = {}
    for node in graph.nodes:
        inputs = node.all_input_nodes
        if node.target == "item" and node.op == "call_method":
            if _is_float_input(inputs[0]):
                found[node] = None
        elif node.op == "call_function" and any(i in found for i in inputs):
            # A float that a function returns leaves Dynamo's graph as a tensor on the CPU.
            is_result = node.target is torch.scalar_tensor and "device" not in node.kwargs
            numbers = all(_is_number(i.meta.get("example_value")) for i in inputs)
            if numbers and (is_result or _is_number(node.meta.get("example_value"))):
                found[node] = None
    return found


def _number_dtype(node: torch.fx.Node) -> torch.dtype | None:
    """The type of the tensor as which a number enters a call; None if it cannot enter as one."""
    if node.target not in TENSOR_FORMS or node.kwargs or len(node.args) != 2:
        return None
    result = node.meta.get("example_value")
    operands = [a.meta.get("example_value") for a in node.args if isinstance(a, torch.fx.Node)]
    tensors = [v for v in operands if isinstance(v, torch.Tensor)]
    # Integers and booleans promote otherwise than a 0-d tensor of floats does.
    floats = [v for v in operands if isinstance(v, (float, torch.SymFloat))]
    if not len(tensors) == len(floats) == 1 or not isinstance(result, torch.Tensor):
        return None
    (tensor,) = tensors
    if not tensor.is_floating_point() and torch.get_default_dtype() is not torch.float32:
        return None
    if tensor.dim() == 0 and tensor.dtype in _NARROW and result.dtype is torch.bool:
        return None  # a number is rounded before it is compared, but of two 0-d tensors neither is
    wide = torch.float64 in (result.dtype, tensor.dtype)
    return torch.float64 if wide else torch.float32


class _Splitter:
    """Builds the two parts of one graph."""

    def __init__(self, module: torch.fx.GraphModule, host: dict[torch.fx.Node, None]) -> None:
        self._module = module
        self._host = host
        self._device_graph = torch.fx.Graph()
        self._host_graph = torch.fx.Graph()
        self._on_device: dict[torch.fx.Node, torch.fx.Node] = {}
        self._on_host: dict[torch.fx.Node, torch.fx.Node] = {}
        # By number and the type with which it enters, in the order of the inputs.
        self._entered: dict[tuple[torch.fx.Node, torch.dtype | None], torch.fx.Node] = {}

    def split(self) -> HostNumbers:
        nodes = list(self._module.graph.nodes)
        kept = self._copy_placeholders([n for n in nodes if n.op == "placeholder"])
        self._enter_numbers(nodes)
        flags: list[bool] = []
        results: list[torch.fx.Node] = []
        for node in nodes:
            if node.op == "output":
                outputs = node.args[0]
                flags = [value not in self._host for value in outputs]
                results = [value for value in outputs if value in self._host]
                left = [value for value in outputs if value not in self._host]
                self._device_graph.output(tuple(map_arg(left, self._on_device.__getitem__)))
            elif node.op != "placeholder" and node not in self._host:
                self._copy_call(node)
        numbers = [self._on_host[number] for number, _ in self._entered]
        self._host_graph.output((*numbers, *(self._on_host[r] for r in results)))
        compute = torch.fx.GraphModule({}, self._host_graph)
        return HostNumbers(
            torch.fx.GraphModule(self._module, self._device_graph),
            compute.forward,
            kept,
            [dtype for _, dtype in self._entered],
            flags,
        )

    def _copy_placeholders(self, placeholders: list[torch.fx.Node]) -> list[int]:
        kept = []
        for place, node in enumerate(placeholders):
            self._on_host[node] = self._host_graph.placeholder(node.name)
            if not _is_float_input(node):
                kept.append(place)
                self._on_device[node] = self._device_graph.node_copy(node)
        for node in self._host:
            self._copy_to_host(node)
        return kept

    def _copy_to_host(self, node: torch.fx.Node) -> torch.fx.Node:
        """Copies a node with the nodes that it is computed from: sizes, and numbers made of
        sizes."""
        if node not in self._on_host:
            if node not in self._host and not _is_number(node.meta.get("example_value")):
                raise CaptureError(f"a Python number is computed from a tensor, {node.name}")
            for source in node.all_input_nodes:
                self._copy_to_host(source)
            self._on_host[node] = self._host_graph.node_copy(node, self._on_host.__getitem__)
        return self._on_host[node]

    def _enter_numbers(self, nodes: list[torch.fx.Node]) -> None:
        """Adds the placeholders of the numbers, because inputs of a graph come before its calls."""
        for node in nodes:
            if node.op == "output" or node in self._host:
                continue
            for number in node.all_input_nodes:
                key = (number, _number_dtype(node))
                if number in self._host and key not in self._entered:
                    name = f"number_{len(self._entered)}"
                    self._entered[key] = self._device_graph.placeholder(name)

    def _copy_call(self, node: torch.fx.Node) -> None:
        dtype = _number_dtype(node)
        entered = {n: self._entered[n, dtype] for n in node.all_input_nodes if n in self._host}
        if not entered or dtype is None:
            both = self._on_device | entered
            self._on_device[node] = self._device_graph.node_copy(node, both.__getitem__)
            return
        graph = self._device_graph
        tensor = next(n for n in node.all_input_nodes if n not in self._host)
        value = node.meta["example_value"]
        operand = self._on_device[tensor]
        narrow = tensor.meta["example_value"].dtype in _NARROW and value.dtype in _NARROW
        if narrow:
            operand = graph.call_method("to", (operand, torch.float32))
        places = {tensor: operand, **entered}
        result = graph.node_copy(node, places.__getitem__)
        self._on_device[node] = graph.call_method("to", (result, value.dtype)) if narrow else result


def split_numbers(module: torch.fx.GraphModule) -> HostNumbers | None:
    """The parts of a graph with floats that change; None for a graph without such floats. Raises
    CaptureError for a number that the host cannot compute."""
    host = _host_nodes(module.graph)
    return _Splitter(module, host).split() if host else None
